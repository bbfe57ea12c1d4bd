"""From panel and bank to answers: the shipped recipe, M-SMC and D-SMC, each of the one shape in `fitted`."""

from simdx.methods.data import Observations, PanelData
from simdx.methods.fitted import RECIPE_VERSION, AnswerTable, Fitted, Settings
