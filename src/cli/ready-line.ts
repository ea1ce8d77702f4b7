import type { Engine } from '../engine/index.ts';

/** `lathe 0.1.0 ready at http://127.0.0.1:8080 - model lathe-tiny (llama, Q8_0, 3.7M) on llvmpipe (vulkan) - 0.9 s` */
export function readyLine(facts: {
  version: string;
  url: string;
  controlUrl: string | undefined;
  engine: Engine | undefined;
  readyMs: number;
}): string {
  const { version, url, controlUrl, engine, readyMs } = facts;
  const control = controlUrl === undefined ? '' : ` (control at ${controlUrl})`;
  const served = engine ? describeModel(engine) : 'no resident model (start with --gpu)';
  return `lathe ${version} ready at ${url}${control} - ${served} - ${(readyMs / 1000).toFixed(1)} s`;
}

/** `model lathe-tiny (llama, Q8_0, 3.7M) on llvmpipe (vulkan)`, and kernels that were replaced because they are wrong */
export function describeModel({ model, adapter, replacedKernels = [] }: Engine): string {
  const facts = `${model.architecture}, ${model.quantization}, ${formatCount(model.parameters)}`;
  const names = replacedKernels.map(({ kernel }) => kernel).join(', ');
  const replaced = names === '' ? '' : `, without kernels that are wrong there: ${names}`;
  return `model ${model.id} (${facts}) on ${adapter.description} (${adapter.backend})${replaced}`;
}

/** 3670016 to `3.7M`. */
export function formatCount(count: number): string {
  const units = [
    [1e9, 'B'],
    [1e6, 'M'],
    [1e3, 'K'],
  ] as const;
  for (const [size, unit] of units) {
    if (count >= size) return `${(count / size).toFixed(1)}${unit}`;
  }
  return String(count);
}
