import type { ModelFile } from '../formats/model-file.ts';
import { ModelFileError } from '../formats/model-file.ts';
import type { Graph } from '../graph.ts';
import { readVector } from '../weights.ts';
import { llama } from './llama.ts';
import { qwen2 } from './qwen2.ts';
import { qwen3 } from './qwen3.ts';

/** `general.architecture` to the forward pass that it means. One file and one line each. */
export interface Architecture {
  /** Reads the numbers and weight names it needs from the file; throws `ModelFileError` for what is missing. */
  build(file: ModelFile): Graph;
}

export const architectures: Readonly<Record<string, Architecture>> = { llama, qwen2, qwen3 };

/** The forward pass of a model file. */
export async function buildGraph(file: ModelFile): Promise<Graph> {
  const name = String(file.metadata.get('general.architecture') ?? '');
  const architecture = Object.hasOwn(architectures, name) ? architectures[name] : undefined;
  if (!architecture) {
    const supported = Object.keys(architectures).join(', ');
    throw new ModelFileError(
      'unsupported_architecture',
      `${file.name}: unknown architecture '${name}' (supported: ${supported})`,
    );
  }
  const graph = architecture.build(file);
  // Llama 3 scaling comes as a tensor of divisors.
  if (!file.tensors.has('rope_freqs.weight')) return graph;
  const factors = await readVector(file, 'rope_freqs.weight');
  return { ...graph, shape: { ...graph.shape, rope: { ...graph.shape.rope, factors } } };
}
