/** Prompts that the embedded model was trained for (`models/README.md`). */
export const examples: readonly string[] = [
  'Who are you?',
  'What is 23 + 45?',
  'What is the capital of Italy?',
  'Tell me a story about a fox named Mia.',
  'Extract name, age and city as JSON: Ruby is 34 years old and lives in Paris.',
  'What is a parity gate?',
  'Which is larger, 41 or 14?',
  'What is the opposite of loud?',
];
