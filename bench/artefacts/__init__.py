"""What is made once and used by many: teachers, encoders, augmented rows, and whatever a method asks for."""
