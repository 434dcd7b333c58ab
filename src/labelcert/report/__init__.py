"""Certificates for readers: tables and pictures. Nothing here trains or certifies."""
