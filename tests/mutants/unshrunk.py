"""A plugin of pytest for the bench: a mutant must be noticed, and nobody reads the smallest example of it."""

from hypothesis import Phase, settings

settings.register_profile("unshrunk", phases=[Phase.explicit, Phase.generate])
settings.load_profile("unshrunk")
