"""Visibility files, exports, pictures and images."""
