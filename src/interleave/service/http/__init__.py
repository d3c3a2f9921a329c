"""What both servers do with connections and requests: limits, authorization, bodies, decoding of images."""
