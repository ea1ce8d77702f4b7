import type { ModelFile } from '../formats/model-file.ts';
import { ModelFileError } from '../formats/model-file.ts';
import type { Graph } from '../graph/graph.ts';
import { bert } from './bert.ts';
import { gemmaEmbedding } from './gemma-embedding.ts';
import { gemma3 } from './gemma3.ts';
import { gemma4 } from './gemma4.ts';
import { gptOss } from './gpt-oss.ts';
import { granite } from './granite.ts';
import { lfm2 } from './lfm2.ts';
import { llama } from './llama.ts';
import { nomicBert } from './nomic-bert.ts';
import { phi3 } from './phi3.ts';
import { qwen2 } from './qwen2.ts';
import { qwen3 } from './qwen3.ts';
import { qwen3moe } from './qwen3moe.ts';
import { qwen35 } from './qwen35.ts';
import { smollm3 } from './smollm3.ts';
import { refuseUnsupported } from './unsupported.ts';

/** Builds the graph of an architecture; `general.architecture` selects it. Each has one file and one line below. */
export interface Architecture {
  /** Reads sizes and weight names from the file. @throws ModelFileError for missing or unsupported ones */
  build(file: ModelFile): Promise<Graph>;
}

export const architectures: Readonly<Record<string, Architecture>> = {
  bert,
  gemma3,
  gemma4,
  'gemma-embedding': gemmaEmbedding,
  'gpt-oss': gptOss,
  granite,
  lfm2,
  llama,
  'nomic-bert': nomicBert,
  phi3,
  qwen2,
  qwen3,
  qwen3moe,
  qwen35,
  smollm3,
};

/** Builds the graph of a model file. */
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
  refuseUnsupported(file);
  return await architecture.build(file);
}
