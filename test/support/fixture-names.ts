/** The models of test/fixtures/architectures, written out so that one which is lost is missed. */
export const fixtureNames = [
  'bert',
  'bge',
  'embedding-gemma',
  'gemma3',
  'gemma3-linear',
  'granite',
  'llama',
  'mistral',
  'nomic-bert',
  'phi3',
  'phi4-mini',
  'qwen2',
  'qwen3',
  'qwen3-embedding',
  'smollm3',
] as const;
