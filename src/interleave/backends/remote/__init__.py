"""What all remote backends share: the HTTP client, its errors, keys, prices, pictures as base64."""
