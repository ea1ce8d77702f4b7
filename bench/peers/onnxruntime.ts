/** onnxruntime-node's WebGPU provider: prebuilt with its own Dawn, KV cache on the device. */
import { freshPrompt } from '../generation.ts';
import { onnxCache, onnxNames } from './onnx-model.ts';
import { runContestant, timeAnswer } from './protocol.ts';

/** The part of onnxruntime-node that is used here. Its own types exist only after `npm --prefix bench/peers ci`. */
interface OnnxRuntime {
  readonly env: { readonly versions: Readonly<Record<string, string>> };
  readonly InferenceSession: { create(path: string, options: object): Promise<Session> };
  readonly Tensor: new (
    type: string,
    data: Float32Array | Int32Array | BigInt64Array,
    shape: readonly number[],
  ) => Tensor;
}
interface Session {
  readonly inputMetadata: readonly { readonly name: string; readonly shape: readonly (number | string)[] }[];
  run(feeds: Readonly<Record<string, Tensor>>): Promise<Readonly<Record<string, Tensor>>>;
}
interface Tensor {
  readonly data: Float32Array;
  dispose(): void;
}

const packageName: string = 'onnxruntime-node';
/** Errors only: warnings of its WebGPU provider are irrelevant here. */
const logSeverityLevel = 3;

runContestant(async ({ modelPath, layers = 0 }) => {
  const { InferenceSession, Tensor, env } = ((await import(packageName)) as { default: OnnxRuntime }).default;
  const caches = Array.from({ length: layers }, (_, layer) => onnxCache(layer)).flat();
  const session = await InferenceSession.create(modelPath, {
    executionProviders: ['webgpu'],
    preferredOutputLocation: Object.fromEntries(caches.map(({ present }) => [present, 'gpu-buffer'])),
    // Otherwise nodes without a WebGPU kernel would silently run on the CPU.
    extra: { session: { disable_cpu_ep_fallback: '1' } },
    logSeverityLevel,
  });
  const ids = (values: readonly number[], shape: readonly number[]) =>
    new Tensor('int64', BigInt64Array.from(values, BigInt), shape);
  const count = (value: number, shape: readonly number[]) => new Tensor('int32', Int32Array.of(value), shape);
  const shapes = new Map(session.inputMetadata.map(({ name, shape }) => [name, shape]));
  const emptyCache = () =>
    caches.map(({ past }): [string, Tensor] => {
      const shape = (shapes.get(past) ?? []).map((length) => (typeof length === 'number' ? length : 0));
      return [past, new Tensor('float32', new Float32Array(0), shape)];
    });

  return {
    name: `onnxruntime ${env.versions['node']}`,
    adapter: 'its choice of a WebGPU adapter, which it does not name',
    software: false,
    async generate({ context, tokens }) {
      let cache = emptyCache();
      let total = 0;
      const times = await timeAnswer(freshPrompt(context), tokens, async (tokenIds) => {
        total += tokenIds.length;
        const results = await session.run({
          ...Object.fromEntries(cache),
          [onnxNames.ids]: ids(tokenIds, [1, tokenIds.length]),
          [onnxNames.lastPosition]: count(total - 1, [1]),
          [onnxNames.total]: count(total, []),
          [onnxNames.wantedToken]: ids([tokenIds.length - 1], [1]),
        });
        for (const [, tensor] of cache) tensor.dispose();
        cache = caches.map(({ past, present }) => [past, resultOf(results, present)]);
        return argmax(resultOf(results, onnxNames.logits).data);
      });
      for (const [, tensor] of cache) tensor.dispose();
      return times;
    },
  };
});

function resultOf(results: Readonly<Record<string, Tensor>>, name: string): Tensor {
  const tensor = results[name];
  if (!tensor) throw new Error(`onnxruntime gave no '${name}'`);
  return tensor;
}

function argmax(values: Float32Array): number {
  let best = 0;
  for (let index = 1; index < values.length; index++) {
    if ((values[index] ?? 0) > (values[best] ?? 0)) best = index;
  }
  return best;
}
