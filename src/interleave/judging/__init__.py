"""What people say about pictures and runs, how far raters agree, and how well a critic's confidence fits."""
