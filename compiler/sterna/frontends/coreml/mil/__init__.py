"""ML programs: operations of the Model Intermediate Language, operator sets CoreML5 to CoreML8 (iOS 15 to 18)."""
