"""What is kept of packets and chunks: files, and rings of chunks in shared memory."""
