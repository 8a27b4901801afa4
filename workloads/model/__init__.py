"""What a workload is: its stages, their outputs, what must come of its inputs, and how its loop works."""
