"""From panel and bank to answers: the shipped recipe, M-SMC and D-SMC, each of the one shape in `fitted`."""

from simdx.methods.fitted import RECIPE_VERSION, AnswerTable, Fitted, Settings
from simdx.methods.material import Material, Observations
