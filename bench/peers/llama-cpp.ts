/** llama.cpp's Vulkan backend through node-llama-cpp: prebuilt, all layers on the device, one batch per prompt. */
import { freshPrompt } from '../generation.ts';
import { runContestant } from './protocol.ts';

/** The part of node-llama-cpp that is used here. Its own types exist only after `npm --prefix bench/peers ci`. */
interface NodeLlamaCpp {
  getLlama(options: object): Promise<Llama>;
}
interface Llama {
  readonly gpu: string | false;
  readonly llamaCppRelease: { readonly release: string };
  getGpuDeviceNames(): Promise<string[]>;
  loadModel(options: { modelPath: string; gpuLayers: 'max' }): Promise<{
    createContext(options: {
      contextSize: number;
      batchSize: number;
    }): Promise<{ getSequence(): LlamaSequence }>;
  }>;
}
interface LlamaSequence {
  clearHistory(): Promise<void>;
  evaluate(tokens: number[], options: object): AsyncGenerator<number>;
}

const packageName: string = 'node-llama-cpp';

runContestant(async ({ modelPath }) => {
  const library = (await import(packageName)) as NodeLlamaCpp;
  const llama = await library.getLlama({
    gpu: 'vulkan',
    build: 'never',
    skipDownload: true,
    progressLogs: false,
    logLevel: 'error',
  });
  const [adapter] = await llama.getGpuDeviceNames();
  if (llama.gpu !== 'vulkan' || adapter === undefined) throw new Error('llama.cpp found no Vulkan device');
  const model = await llama.loadModel({ modelPath, gpuLayers: 'max' });
  const context = await model.createContext({ contextSize: 1024, batchSize: 512 });
  const sequence = context.getSequence();
  return {
    name: `llama.cpp ${llama.llamaCppRelease.release}`,
    adapter,
    software: adapter.includes('llvmpipe'),
    async generate({ context: promptTokens, tokens }) {
      await sequence.clearHistory();
      const start = performance.now();
      let first = start;
      let count = 0;
      // Greedy, and past the end token, as for lathe.
      for await (const _ of sequence.evaluate(freshPrompt(promptTokens), {
        temperature: 0,
        yieldEogToken: true,
      })) {
        if (count++ === 0) first = performance.now();
        if (count === tokens) break;
      }
      if (count < tokens) throw new Error(`llama.cpp ended after ${count} of ${tokens} tokens`);
      const perTokenMs = tokens > 1 ? (performance.now() - first) / (tokens - 1) : 0;
      return { firstTokenMs: first - start, perTokenMs };
    },
  };
});
