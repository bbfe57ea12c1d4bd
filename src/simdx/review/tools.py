"""A review in Label Studio or Argilla: the form as their files, and what was exported from them back.

Both see what our own form shows, a code and a text; the code and the review's name travel in the task's data
(Label Studio) or the record's metadata (Argilla).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import quoteattr

from simdx.errors import BadInput
from simdx.review.sheet import HIGHEST, LOWEST, SCALES
from simdx.types import NONE_OF_THESE

TOOLS = ("label-studio", "argilla")
SHARED_FILES = ("label-studio.xml", "argilla-settings.json")  # the same for every reviewer
Answers = dict[str, dict[str, Any]]


def tool_files(
    tool: str, review: str, reviewer: str, items: Sequence[Mapping[str, str | None]], choices: Sequence[str]
) -> dict[str, str]:
    """File name -> content of one reviewer's form."""
    told = f"{review}/{reviewer}"
    if tool == "label-studio":
        tasks = [{"data": {"review": told, **_shown(item)}} for item in items]
        return {f"form-{reviewer}.label-studio.json": _json(tasks), "label-studio.xml": _interface(choices)}
    records = [
        {"id": code, "fields": {"text": text}, "metadata": {"review": told, "code": code}}
        for code, text in (_shown(item).values() for item in items)
    ]
    settings = _json(_settings(choices))
    return {f"form-{reviewer}.argilla.json": _json(records), "argilla-settings.json": settings}


def _shown(item: Mapping[str, str | None]) -> dict[str, str]:
    label = f"[{item['label']}] " if item["label"] else ""
    return {"code": str(item["code"]), "text": label + str(item["text"])}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def _interface(choices: Sequence[str]) -> str:
    """Label Studio's labelling interface."""
    rows = ["<View>", '  <Text name="text" value="$text"/>']
    for scale in SCALES:
        rows += [
            f"  <Header value={quoteattr(scale.capitalize())}/>",
            f'  <Rating name="{scale}" toName="text" maxRating="{HIGHEST}" required="true"/>',
        ]
    if choices:
        rows += [
            '  <Header value="Diagnosis"/>',
            '  <Choices name="diagnosis" toName="text" choice="single">',
        ]
        rows += [f"    <Choice value={quoteattr(name)}/>" for name in (*choices, NONE_OF_THESE)]
        rows += ["  </Choices>"]
    rows += ['  <Header value="Feedback"/>', '  <TextArea name="feedback" toName="text" maxSubmissions="1"/>']
    return "\n".join([*rows, "</View>"]) + "\n"


def _settings(choices: Sequence[str]) -> dict[str, Any]:
    """Argilla's settings of a data set."""
    points = [{"value": value} for value in range(LOWEST, HIGHEST + 1)]
    questions = [_question(scale, {"type": "rating", "options": points}) for scale in SCALES]
    if choices:
        named = [{"value": name, "text": name, "description": None} for name in (*choices, NONE_OF_THESE)]
        options = {"type": "label_selection", "options": named, "visible_options": None}
        questions.append(_question("diagnosis", options, required=False))
    plain = {"type": "text", "use_markdown": False}
    questions.append(_question("feedback", plain, required=False))
    text = {"name": "text", "title": "Text", "required": True, "settings": plain}
    return {
        "guidelines": None, "questions": questions, "fields": [text], "vectors": [], "metadata": [],
        "allow_extra_metadata": True, "distribution": {"strategy": "overlap", "min_submitted": 1},
    }  # fmt: skip


def _question(name: str, settings: dict[str, Any], required: bool = True) -> dict[str, Any]:
    return {
        "name": name, "title": name.capitalize(), "description": None, "required": required,
        "settings": settings,
    }  # fmt: skip


# --------------------------------------------------------------------------- back


def read_export(content: str, name: str) -> tuple[str, str, Answers]:
    """Review, reviewer and answers by code, of a JSON file that either tool exported."""
    try:
        rows = json.loads(content)
        found = [_label_studio(row) if "data" in row else _argilla(row) for row in rows]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise BadInput(f"{name} is neither an export of Label Studio nor of Argilla") from None
    told = {review for review, _, _ in found}
    if len(told) != 1 or "/" not in next(iter(told)):
        raise BadInput(f"{name} does not hold one form of one review")
    codes = [code for _, code, _ in found]
    if len(set(codes)) != len(codes):
        raise BadInput(f"{name} holds a text twice")
    if any(len(answers) > 1 for _, _, answers in found):
        raise BadInput(f"{name}: two people answered one form; give each reviewer a form of their own")
    review, _, reviewer = next(iter(told)).partition("/")
    return review, reviewer, {code: answers[0] for _, code, answers in found if answers}


def _label_studio(task: Mapping[str, Any]) -> tuple[str, str, list[dict[str, Any]]]:
    given = [one["result"] for one in task.get("annotations") or [] if not one.get("was_cancelled")]
    return str(task["data"]["review"]), str(task["data"]["code"]), [_result(result) for result in given]


def _result(result: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The controls of one annotation by name; each holds its value under its own kind."""
    out = {}
    for region in result:
        value = region["value"]["text" if region["type"] == "textarea" else region["type"]]
        out[str(region["from_name"])] = value[0] if isinstance(value, list) and value else value
    return out


def _argilla(record: Mapping[str, Any]) -> tuple[str, str, list[dict[str, Any]]]:
    by_user: dict[str, dict[str, Any]] = {}
    for question, responses in (record.get("responses") or {}).items():
        for response in responses:
            by_user.setdefault(str(response.get("user_id")), {})[question] = response["value"]
    metadata = record["metadata"]
    return str(metadata["review"]), str(metadata["code"]), list(by_user.values())
