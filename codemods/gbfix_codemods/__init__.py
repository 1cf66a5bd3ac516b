"""The rules that come with gbfix: one public module is one rule, found by being here."""
