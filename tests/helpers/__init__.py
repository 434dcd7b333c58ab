"""What tests share. Test modules import from here, never from each other."""
