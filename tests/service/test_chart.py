"""What of a prefetch is read: the right patient, a record that holds, no diagnosis fed back; its links."""

import base64
import encodings.aliases
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from simdx.service import cds
from simdx.service.cds import why_no_card
from simdx.service.chart import MAX_BYTES, read_chart, text_of
from simdx.service.config import Limits
from tests.loopback import Pages, running
from tests.service.conftest import TEXT, serving
from tests.service.test_cds import CONDITION, QUESTIONS, VIEW, bundle, invocation, note

VER = "http://terminology.hl7.org/CodeSystem/condition-ver-status"
CLINICAL = "http://terminology.hl7.org/CodeSystem/condition-clinical"


def concept(system: str, code: str) -> dict:
    return {"coding": [{"system": system, "code": code}]}


def condition(clinical: str = "active", verified: str = "confirmed", **changes: object) -> dict:
    return {
        **CONDITION, "clinicalStatus": concept(CLINICAL, clinical),
        "verificationStatus": concept(VER, verified), **changes,
    }  # fmt: skip


def attached(**attachment: object) -> dict:
    return note(content=[{"attachment": attachment}])


@pytest.mark.parametrize(
    ("prefetch", "source", "said"),
    [
        ({"documents": note()}, "DocumentReference/n1 of 2026-01-01T00:00:00Z (status current)", TEXT),
        ({"documents": bundle(note(docStatus="amended", date="2026-02"))},
         "DocumentReference/n1 of 2026-02 (status current, docStatus amended)", TEXT),
        ({"documents": None, "responses": QUESTIONS},
         "QuestionnaireResponse/q1 of 2026-01-01 (status completed)", "Painful?: no"),
        ({"responses": bundle(QUESTIONS)}, "QuestionnaireResponse/q1 of 2026-01-01", "Size: 8 mm"),
        ({"conditions": CONDITION}, "Condition/c1 of no date (status not stated)", "came after a bite."),
        ({"conditions": condition(recordedDate="2026-01-01")},
         "Condition/c1 of 2026-01-01 (clinicalStatus active, verificationStatus confirmed)", "Soft"),
        ({"a": CONDITION, "b": QUESTIONS, "c": note()}, "DocumentReference/n1", TEXT),
        ({"a": note("old", date="2020-01-01"), "b": note("new", date="2026-01-01")},
         "DocumentReference/n1 of 2026-01-01", "new"),
        ({"d": note(subject={"reference": "Patient/42/_history/3"})}, "DocumentReference/n1", TEXT),
        ({"d": note(subject={"reference": "https://fhir.example/r4/Patient/42"})}, "DocumentReference", TEXT),
        ({"d": note(id="<b>", date="yesterday")}, "DocumentReference of no date (status current)", TEXT),
    ],
)  # fmt: skip
def test_text_is_found_in_every_kind_of_prefetch(prefetch: dict, source: str, said: str) -> None:
    found = read_chart(prefetch, "42", "https://fhir.example/r4").sources[0]
    assert found.words.startswith(source)
    assert said in found.text


def about(reference: str) -> dict:
    return note(subject={"reference": reference})


# Why a resource is not read.
UNREADABLE = {
    "it is about another patient": (
        about("Patient/99"), about("Patient/421"), about("Group/42"),
        about("https://elsewhere.example/Patient/42"),
        note(subject={"reference": "#p", "display": "Patient/42"}),
        {**QUESTIONS, "subject": {"reference": "Patient/99"}}, condition(subject={"reference": "Patient/99"}),
    ),
    "it does not say which patient": (note(subject={"display": "Patient/42"}), note(subject=None)),
    "its status is not one that holds": (
        *(note(status=s) for s in ("superseded", "entered-in-error", None, ["current"])),
        *({**QUESTIONS, "status": s} for s in ("entered-in-error", "in-progress", "stopped")),
    ),
    "the document is not final": (note(docStatus="entered-in-error"), note(docStatus="preliminary")),
    "its verification status is not one that holds": (
        condition(verified="refuted"), condition(verified="entered-in-error"),
        condition(verificationStatus={"text": "refuted"}), condition(verificationStatus="confirmed"),
    ),
    "it is not active": (
        condition("resolved"), condition("inactive"), condition("remission"),
        condition(clinicalStatus={"coding": [{"code": "active"}, {"code": "resolved"}]}),
        condition(clinicalStatus={"text": "active"}),
    ),
    "it holds no text": (
        condition(note=[]), note("   "), note(content="no list"),
        attached(contentType="application/pdf", data="JVBERi0="),
        attached(contentType="application/pdf", url="Binary/1"),
        attached(contentType="text/plain", data="%%% not base64"),
        attached(contentType="text/plain; charset=nonsense", data="YQ=="),
        attached(contentType="text/plain; charset=punycode", data="YWJj"),
        attached(contentType="text/plain", data="/////w=="),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("why", "resource"), [(why, one) for why in UNREADABLE for one in UNREADABLE[why]])
def test_what_may_not_be_read_gives_no_card_and_a_line(client: TestClient, why: str, resource: dict) -> None:
    reply = client.post(VIEW, json=invocation(prefetch={"x": bundle(resource)}))
    assert (reply.status_code, reply.json()["cards"]) == (200, [])
    (line,) = reply.json()["extension"]["simdx"]["notes"]
    assert line.startswith(resource["resourceType"])
    assert why in line


@pytest.mark.parametrize(
    "prefetch",
    [
        {"documents": bundle()},
        {"patient": {"resourceType": "Patient", "id": "42"}},
        {"odd": 5, "list": [1], "text": "x", "bundle": {"resourceType": "Bundle", "entry": {}}},
        {"odd": {"resourceType": ["Condition"]}},
    ],
)
def test_a_prefetch_without_any_text_gives_no_cards(client: TestClient, prefetch: dict) -> None:
    reply = client.post(VIEW, json=invocation(prefetch=prefetch))
    assert (reply.status_code, reply.json()) == (200, {"cards": []})


def test_a_card_names_what_was_read_and_what_was_not(client: TestClient) -> None:
    chart = bundle(note(), note(id="n9", subject={"reference": "Patient/99"}), condition("resolved"))
    (card,) = client.post(VIEW, json=invocation(prefetch={"x": chart})).json()["cards"]
    assert "Read: DocumentReference/n1 of 2026-01-01T00:00:00Z (status current)." in card["detail"]
    assert "Not read: DocumentReference/n9: it is about another patient." in card["detail"]
    assert "Not read: Condition/c1: it is not active." in card["detail"]


def test_a_prefetched_patient_must_be_the_one_of_the_context(client: TestClient) -> None:
    prefetch = {"patient": {"resourceType": "Patient", "id": "99"}, "documents": note()}
    reply = client.post(VIEW, json=invocation(prefetch=prefetch))
    assert (reply.status_code, reply.json()["type"]) == (422, "urn:simdx:problem:bad-input")
    assert client.post(VIEW, json=invocation(prefetch={**prefetch, "patient": None})).json()["cards"]


def test_a_context_may_name_the_patient_as_a_reference_and_the_encounter(client: TestClient) -> None:
    context = {"userId": "Practitioner/1", "patientId": "Patient/42", "encounterId": "e-7"}
    (card,) = client.post(VIEW, json=invocation(context=context)).json()["cards"]
    made = card["suggestions"][0]["actions"][0]["resource"]
    assert made["subject"] == {"reference": "Patient/42"}
    assert made["encounter"] == {"reference": "Encounter/e-7"}


def test_a_coded_diagnosis_is_never_the_case(client: TestClient) -> None:
    coded = {"text": "oral mucocele", "coding": [{"system": "http://snomed.info/sct", "code": "1",
                                                 "display": "Oral mucocele"}]}  # fmt: skip
    bare = condition(code=coded, note=[])
    assert client.post(VIEW, json=invocation(prefetch={"c": bare})).json()["cards"] == []
    told = read_chart({"c": condition(code=coded)}, "42").sources[0].text
    assert told == CONDITION["note"][0]["text"]
    icd, sct = "http://hl7.org/fhir/sid/icd-10-cm", "http://snomed.info/sct"
    codings = ((icd, "K11.6", "Mucocele"), (sct, "109778000", "Mucocele"), (sct, "373066001", "Yes"))
    answers = [{"valueCoding": dict(zip(("system", "code", "display"), c, strict=True))} for c in codings]
    asked = {**QUESTIONS, "item": [{"linkId": "1", "text": "Bluish?", "answer": answers}]}
    assert read_chart({"q": asked}, "42", codes={"109778000"}).sources[0].text == "Bluish?: Yes"


@pytest.mark.parametrize(
    "text", ["Hypertension", "The gearbox of the lorry leaks oil onto the road near the harbour bridge."]
)
def test_no_card_where_none_of_the_labels_is_likely(client: TestClient, text: str) -> None:
    reply = client.post(VIEW, json=invocation(prefetch={"d": note(text)})).json()
    assert reply["cards"] == []
    assert "more likely none of these than any label" in reply["extension"]["simdx"]["notes"][0]
    (record,) = client.get("/v1/audit", params={"kind": "cds", "limit": 1}).json()["records"]
    assert record["answer"]["out_of_class"] >= 0.5  # asked and recorded all the same


def test_no_card_where_the_text_is_unlike_any_description(client: TestClient) -> None:
    text = "The patient has high blood pressure and takes ramipril."
    reply = client.post(VIEW, json=invocation(prefetch={"d": note(text)})).json()
    assert reply["cards"] == []
    assert reply["extension"]["simdx"]["notes"][0].startswith("No card: ")
    # A bank without a background has no share of none of these to say it by.
    for outside in (None, 0.1):
        assert "unlike the descriptions" in why_no_card({"out_of_class": outside, "typicality": 1e-4})
        assert why_no_card({"out_of_class": outside, "typicality": 0.5}) is None


def test_a_link_is_kept_for_the_fetch_and_does_not_fall_through_unseen(client: TestClient) -> None:
    linked = attached(contentType="text/plain", url="Binary/1")
    chart = read_chart({"d": linked, "c": condition()}, "42")
    assert [(s.text, s.links) for s in chart.sources] == [
        ("", ("Binary/1",)),
        (CONDITION["note"][0]["text"], ()),
    ]
    (card,) = client.post(VIEW, json=invocation(prefetch={"d": linked, "c": condition()})).json()["cards"]
    assert "Read: Condition/c1" in card["detail"]
    assert "Not read: DocumentReference/n1: its text is a link, and the call names no" in card["detail"]


def test_contents_of_a_document_are_the_same_text_in_other_forms() -> None:
    plain = {"contentType": "text/plain", "data": base64.b64encode(b"plain").decode()}
    html = {"contentType": "text/html", "data": base64.b64encode(b"<p>plain</p>").decode()}
    link = {"contentType": "text/plain", "url": "Binary/1"}
    document = note(content=[{"attachment": a} for a in (link, plain, html)])
    (source,) = read_chart({"d": document}, "42").sources
    assert (source.text, source.links) == ("plain", ("Binary/1",))


def test_deep_questionnaires_end() -> None:
    item: dict = {"linkId": "x", "text": "q", "answer": [{"valueString": "deep"}]}
    for _ in range(200):
        item = {"linkId": "x", "item": [item]}
    assert read_chart({"r": {**QUESTIONS, "item": [item]}}, "42").sources == ()


# --------------------------------------------------------------------------- attachments

NOTE = "Lésion bleuâtre de la lèvre"


def read(data: bytes, content_type: str) -> str | None:
    return text_of(base64.b64encode(data).decode("ascii"), content_type) or None


@pytest.mark.parametrize(
    ("kind", "codec"),
    [("; charset=utf-8", "utf-8"), ("; charset=UTF-8", "utf-8-sig"), ("; charset=iso-8859-1", "latin-1"),
     ("; charset=ISO-8859-15", "iso-8859-15"), ("; charset=windows-1252", "cp1252"),
     ("; charset=utf-16", "utf-16"), ("; charset=utf-16le", "utf-16-le"), ("; charset=UTF-16BE", "utf-16-be"),
     ('; charset="utf-8"', "utf-8"), ("; charset=iso_8859-1", "latin-1"), ("", "utf-8"),
     ("; format=flowed", "utf-8")],
)  # fmt: skip
def test_the_charsets_of_notes_are_read(kind: str, codec: str) -> None:
    assert read(NOTE.encode(codec), f"Text/Plain{kind}") == NOTE


def test_every_codec_that_is_not_for_notes_is_refused() -> None:
    """A megabyte of punycode took 33 seconds, on the event loop."""
    odd = ["punycode", "idna", "utf-7", "unicode-escape", "raw-unicode-escape", "undefined", "mbcs"]
    for codec in (*odd, *(c for c in encodings.aliases.aliases.values() if c.endswith("_codec"))):
        assert read(b"plain words", f"text/plain; charset={codec}") is None


def test_what_is_too_long_is_refused_before_it_is_decoded() -> None:
    assert text_of(b"a" * MAX_BYTES, "text/plain") == "a" * MAX_BYTES
    for data, kind in (
        (b"a" * (MAX_BYTES + 1), "text/plain"), ("YWJj" * MAX_BYTES, "text/plain"),
        (base64.b64encode(b"a" * (MAX_BYTES + 1)).decode(), "text/plain"), ("!", "text/plain"),
        (b"a", "text/plain;" + " " * 1_000), (b"\xff", "text/plain"),
    ):  # fmt: skip
        assert text_of(data, kind) == ""


def test_the_event_loop_answers_while_a_note_is_read(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note that takes long to read (here: until health was asked for) must not hold everyone."""
    reading, asked = threading.Event(), threading.Event()

    def slow(*chart: object) -> object:
        reading.set()
        assert asked.wait(20), "the event loop stood still while a note was read"
        return read_chart(*chart)

    monkeypatch.setattr(cds, "read_chart", slow)
    got: list[int] = []
    caller = threading.Thread(target=lambda: got.append(client.post(VIEW, json=invocation()).status_code))
    caller.start()
    assert reading.wait(20)
    assert client.get("/healthz").status_code == 200
    asked.set()
    caller.join(30)
    assert got == [200]


# --------------------------------------------------------------------------- attachments that are only links

TOKEN = "some-opaque.fhir-access_token"
LIMITS = Limits(attachment_bytes=10_000, attachment_seconds=60.0)
BINARY = {
    "resourceType": "Binary", "contentType": "text/plain", "data": base64.b64encode(TEXT.encode()).decode(),
}  # fmt: skip


@pytest.fixture
def fhir_server() -> Iterator[Pages]:
    """A record system's FHIR server on loopback, at /r4, where slow pages wait until the end."""
    over = threading.Event()
    with running(Pages()) as server:
        kinds = {
            "plain": (200, "text/plain; charset=utf-8", TEXT.encode()),
            "html": (200, "text/html", f"<p>{TEXT}</p>".encode()),
            "resource": (200, "application/fhir+json", json.dumps(BINARY).encode()),
            "patient": (200, "application/fhir+json", b'{"resourceType": "Patient"}'),
            "rtf": (200, "application/rtf", rb"{\rtf1 lip}"),
            "large": (200, "text/plain", b"lip " * 5_000),
            "zipped": (200, "text/plain", b"lip", ("content-encoding", "gzip")),
            "moved": (302, "text/plain", b"", ("location", f"{server.url}/r4/Binary/plain")),
            "slow": lambda: over.wait(60) and (404, "text/plain", b""),
        }
        server.pages = {f"/r4/Binary/{name}": page for name, page in kinds.items()}
        server.base = f"{server.url}/r4"
        yield server
        over.set()


def asked(server: Pages) -> list[tuple[str, str | None]]:
    return [(path, headers.get("authorization")) for path, headers in server.asked]


@pytest.fixture
def reader(fhir_server: Pages, tmp_path: Path) -> Iterator[TestClient]:
    with serving(tmp_path, fhir_servers=(fhir_server.base,), limits=LIMITS) as reader:
        yield reader


def linked(url: str, kind: str | None = "text/plain") -> dict:
    return note(content=[{"attachment": {"url": url} | ({"contentType": kind} if kind else {})}])


def call(server: str | None, document: dict, token: str | None = TOKEN) -> dict:
    body = invocation(prefetch={"documents": document})
    if server:
        body["fhirServer"] = server
    if token is not None:
        body["fhirAuthorization"] = {
            "access_token": token, "token_type": "Bearer", "expires_in": 300, "scope": "patient/Binary.read",
            "subject": "simdx",
        }  # fmt: skip
    return body


def notes(reader: TestClient, server: Pages, document: dict, token: str | None = TOKEN) -> list[str]:
    """What is said of a document that gives no card."""
    reply = reader.post(VIEW, json=call(server.base, document, token))
    assert (reply.status_code, reply.json()["cards"]) == (200, [])
    return reply.json()["extension"]["simdx"]["notes"]


@pytest.mark.parametrize("name", ["plain", "html", "resource"])
@pytest.mark.parametrize("absolute", [False, True])
def test_a_linked_note_is_fetched_with_the_hooks_token(
    reader: TestClient, fhir_server: Pages, name: str, absolute: bool
) -> None:
    url = f"{fhir_server.base}/Binary/{name}" if absolute else f"Binary/{name}"
    (card,) = reader.post(VIEW, json=call(fhir_server.base + "/", linked(url))).json()["cards"]
    assert card["summary"].startswith(("Accept: oral mucocele", "Likely: oral mucocele"))
    assert "Read: DocumentReference/n1 of 2026-01-01T00:00:00Z" in card["detail"]
    assert asked(fhir_server) == [(f"/r4/Binary/{name}", f"Bearer {TOKEN}")]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("Binary/moved", "the server answered 302"),
        ("Binary/nothing", "the server answered 404"),
        ("Binary/large", "it is larger than 10,000 bytes"),
        ("Binary/zipped", "the server compressed its answer"),
        ("Binary/rtf", "what its link leads to is not text"),
        ("Binary/patient", "what its link leads to is not text"),
    ],
)
def test_what_cannot_be_fetched_is_said_in_a_line(
    reader: TestClient, fhir_server: Pages, url: str, why: str
) -> None:
    assert notes(reader, fhir_server, linked(url, None)) == [f"DocumentReference/n1: {why}"]
    assert len(fhir_server.asked) == 1  # a redirect is not followed


def test_a_server_that_takes_its_time_is_not_waited_for(fhir_server: Pages, tmp_path: Path) -> None:
    limits = Limits(attachment_seconds=0.5)
    with serving(tmp_path, fhir_servers=(fhir_server.base,), limits=limits) as reader:
        assert notes(reader, fhir_server, linked("Binary/slow")) == [
            "DocumentReference/n1: the server took longer than 0.5 seconds"
        ]


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/r4/Binary/plain", "//127.0.0.1:1/r4/Binary/plain", "/admin", "../admin",
        "Binary/%2e%2e/%2e%2e/admin", "Binary/..%2f..%2fadmin", "Binary\\..\\..\\admin", "file:///etc/passwd",
        "http://127.0.0.1@evil.example/r4/Binary/plain", "Binary/plain#x", "Binary/a b", "http://[",
        "https://127.0.0.1/r4/Binary/plain", "Binary/plain\r\nX-Header: 1", "@b/Binary/plain", "@",
        "..;/admin", "Binary/..;/..;/admin", "Binary/plain;x=1", "Binary/%2e%2e%3b/admin", "Binary/%2e/plain",
        "Binary%2fplain", "Binary/%252e%252e/admin", "Binary/pl%61in", "Binary/..%5c..%5cadmin",
        "Binary/.\t./x",
        "@/..;/admin", "@/Binary/..\\admin", "Binary/\u2025/admin", "Binary/pla\nin",
    ],
)  # fmt: skip
def test_a_link_that_leads_away_is_not_followed(reader: TestClient, fhir_server: Pages, url: str) -> None:
    document = linked(url.replace("@", fhir_server.base) if url.startswith("@") else url)
    said = "DocumentReference/n1: its text is a link that leads away from the fhirServer"
    assert notes(reader, fhir_server, document) == [said]
    assert fhir_server.asked == []


def test_a_server_nobody_named_is_never_called(fhir_server: Pages, tmp_path: Path) -> None:
    allowed = (fhir_server.base + "/other", "https://fhir.example/r4")
    with serving(tmp_path, fhir_servers=allowed) as reader:
        (line,) = notes(reader, fhir_server, linked("Binary/plain"))
    assert line.endswith("this service may not fetch from that fhirServer (--fhir-server)")
    assert fhir_server.asked == []


@pytest.mark.parametrize("token", [None, "a b", "x\r\nX-Header: 1", ""])
def test_without_a_token_nothing_is_fetched(
    reader: TestClient, fhir_server: Pages, token: str | None
) -> None:
    (line,) = notes(reader, fhir_server, linked("Binary/plain"), token)
    assert line.endswith("the call brings no fhirAuthorization")
    assert fhir_server.asked == []


def test_a_document_of_another_patient_is_not_even_fetched(reader: TestClient, fhir_server: Pages) -> None:
    foreign = {**linked("Binary/plain"), "subject": {"reference": "Patient/99"}}
    assert reader.post(VIEW, json=call(fhir_server.base, foreign)).json()["cards"] == []
    assert fhir_server.asked == []


def test_a_chart_of_links_has_few_of_them_fetched(reader: TestClient, fhir_server: Pages) -> None:
    chart = {"resourceType": "Bundle", "entry": [{"resource": linked(f"Binary/{i}")} for i in range(10)]}
    said = notes(reader, fhir_server, chart)
    assert len(fhir_server.asked) == LIMITS.attachments
    assert said[-2:] == ["DocumentReference/n1: too many texts of this chart are links", "and 5 more"]


def test_the_token_is_in_no_log_record_or_reply(
    reader: TestClient, fhir_server: Pages, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    replies = [
        reader.post(VIEW, json=call(fhir_server.base, linked(f"Binary/{name}"))).text
        for name in ("plain", "large", "moved")
    ]
    replies.append(reader.post(VIEW, json={**call(fhir_server.base, note()), "hook": "x"}).text)
    replies.append(reader.get("/v1/audit").text)
    assert TOKEN not in "".join(replies) + caplog.text
    assert not any(TOKEN.encode() in file.read_bytes() for file in tmp_path.iterdir())
