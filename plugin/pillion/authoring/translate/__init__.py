"""Other systems' words for sharing a GPU, in Pillion's terms: one module per system.

Each module has one pure function from a step to its translation. Where a word has no exact counterpart, the step never
gets less than it had, and a finding says what is different.
"""

from pillion.authoring.manifests.intent import Translator
from pillion.authoring.translate import hami, kai, nvidia
from pillion.authoring.translate.hami import from_hami
from pillion.authoring.translate.kai import from_kai
from pillion.authoring.translate.nvidia import from_nvidia

# Annotations and extended resources by which a step's wish to share a GPU is recognised.
WORDS: dict[str, tuple[str, ...]] = {"kai": kai.WORDS, "hami": hami.WORDS, "nvidia": nvidia.WORDS}
TRANSLATORS: dict[str, Translator] = {"kai": from_kai, "hami": from_hami, "nvidia": from_nvidia}

__all__ = ["TRANSLATORS", "WORDS", "from_hami", "from_kai", "from_nvidia"]
