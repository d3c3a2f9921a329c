"""Words of the run in these tests that no signed statement may have."""

SECRET_TITLE, SECRET_PROMPT = "Zanzibar of Aunt Philippa", "a quilted heron in Marigold Lane"
