"""Core ML: `.mlmodel` files and `.mlpackage` packages; neural networks, programs, trees and other classical models."""
