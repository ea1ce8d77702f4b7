/** Buffers for one run of a kernel, each with canary words before and after the bound range. */
import { type Contract, type ContractBinding, packUniform } from '../../../kernels/contracts.ts';
import type { ParityCase } from '../types.ts';

/** In bytes. Storage binding offsets that are multiples of it are valid on every adapter. */
const alignment = 256;
const canaryWords = alignment / 4;

interface GuardedBuffer {
  readonly binding: ContractBinding;
  readonly number: number;
  readonly buffer: GPUBuffer;
  /** Offset of the bound range; bytes, like `size`. */
  readonly offset: number;
  readonly size: number;
  /** Contents of the whole buffer before the run. */
  readonly initial: Uint32Array<ArrayBuffer>;
}

/** Contents of the buffers after a run, and words that changed outside of the outputs. */
export interface RunResult {
  /** Contents of the writable bindings, by name. */
  readonly written: Readonly<Record<string, Uint32Array<ArrayBuffer>>>;
  /** Canaries that changed. `word` is relative to the start of the binding (negative) or to its end. */
  readonly canaries: readonly { readonly binding: string; readonly word: number }[];
  /** Words of bindings of role `in` that changed. */
  readonly inputs: readonly { readonly binding: string; readonly word: number }[];
}

export class GuardedBuffers {
  readonly #device: GPUDevice;
  readonly #guardedBuffers: readonly GuardedBuffer[];
  readonly #uniforms: readonly { readonly number: number; readonly buffer: GPUBuffer }[];

  /**
   * @param contents words of every storage binding, by name
   * @param leadingCanaries number of canary areas before each binding. It also selects the order in which the buffers
   * are created, so that two runs with different values do not get the same memory.
   */
  constructor(
    device: GPUDevice,
    contract: Contract,
    parityCase: ParityCase,
    {
      contents,
      leadingCanaries,
    }: { contents: Readonly<Record<string, Uint32Array>>; leadingCanaries: number },
  ) {
    this.#device = device;
    const numbered = contract.bindings.map((binding, number) => ({ binding, number }));
    if (leadingCanaries % 2 === 0) numbered.reverse();
    const storage = numbered.filter(({ binding }) => binding.role !== 'uniform');
    this.#guardedBuffers = storage.map(({ binding, number }) => {
      const data = contents[binding.name];
      if (!data) throw new Error(`case ${parityCase.name} has no contents for ${binding.name}`);
      const offset = alignment * leadingCanaries;
      const words = offset / 4 + data.length + canaryWords;
      const initial = new Uint32Array(words);
      for (let i = 0; i < words; i++) initial[i] = canary(number, leadingCanaries, i);
      initial.set(data, offset / 4);
      const buffer = device.createBuffer({
        label: binding.name,
        size: words * 4,
        usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC,
      });
      device.queue.writeBuffer(buffer, 0, initial);
      return { binding, number, buffer, offset, size: data.byteLength, initial };
    });
    this.#uniforms = numbered
      .filter(({ binding }) => binding.role === 'uniform')
      .map(({ binding, number }) => {
        const bytes = packUniform(
          binding,
          binding.name === 'step' ? { tokens: parityCase.dims['tokens'] ?? 1 } : parityCase.params,
        );
        const buffer = device.createBuffer({
          label: binding.name,
          size: bytes.byteLength,
          usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST,
        });
        device.queue.writeBuffer(buffer, 0, bytes);
        return { number, buffer };
      });
  }

  /** Total size of the storage buffers, in bytes. */
  get bytes(): number {
    return this.#guardedBuffers.reduce((sum, { initial }) => sum + initial.byteLength, 0);
  }

  /** Creates a bind group for the contract's layout. */
  bindGroup(layout: GPUBindGroupLayout): GPUBindGroup {
    const entries = [
      ...this.#guardedBuffers.map(({ number, buffer, offset, size }) => ({
        binding: number,
        resource: { buffer, offset, size },
      })),
      ...this.#uniforms.map(({ number, buffer }) => ({ binding: number, resource: { buffer } })),
    ];
    return this.#device.createBindGroup({ layout, entries });
  }

  /** Overwrites the contents of `in` and `inout` bindings. `out` bindings do not change. */
  rewrite(contents: Readonly<Record<string, Uint32Array<ArrayBuffer>>>): void {
    for (const { binding, buffer, offset, initial } of this.#guardedBuffers) {
      const words = contents[binding.name];
      if (binding.role === 'out' || !words) continue;
      this.#device.queue.writeBuffer(buffer, offset, words);
      initial.set(words, offset / 4);
    }
  }

  /** Copies the storage buffers to `target` at byte offset `at`. @returns the number of bytes */
  copyTo(encoder: GPUCommandEncoder, target: GPUBuffer, at: number): number {
    let end = at;
    for (const { buffer, initial } of this.#guardedBuffers) {
      encoder.copyBufferToBuffer(buffer, 0, target, end, initial.byteLength);
      end += initial.byteLength;
    }
    return end - at;
  }

  /** Evaluates the data that `copyTo` copied. */
  inspect(copied: ArrayBuffer, at: number): RunResult {
    const written: Record<string, Uint32Array<ArrayBuffer>> = {};
    const canaries: { binding: string; word: number }[] = [];
    const inputs: { binding: string; word: number }[] = [];
    let start = at;
    for (const { binding, offset, size, initial } of this.#guardedBuffers) {
      const { name, role } = binding;
      const current = new Uint32Array(copied, start, initial.length);
      start += initial.byteLength;
      const [first, end] = [offset / 4, (offset + size) / 4];
      const firstChangedBefore = firstDifference(initial, current, 0, first);
      const firstChangedAfter = firstDifference(initial, current, end, initial.length);
      if (firstChangedBefore >= 0) canaries.push({ binding: name, word: firstChangedBefore - first });
      if (firstChangedAfter >= 0) canaries.push({ binding: name, word: firstChangedAfter - end });
      if (role === 'in') {
        const changed = firstDifference(initial, current, first, end);
        if (changed >= 0) inputs.push({ binding: name, word: changed - first });
      } else {
        written[name] = current.subarray(first, end);
      }
    }
    return { written, canaries, inputs };
  }

  destroy(): void {
    for (const { buffer } of [...this.#guardedBuffers, ...this.#uniforms]) buffer.destroy();
  }
}

const canary = (binding: number, leadingCanaries: number, word: number): number =>
  (0xca9a0000 ^ Math.imul(word + 1, 0x9e3779b1) ^ (binding << 24) ^ leadingCanaries) >>> 0;

function firstDifference(initial: Uint32Array, current: Uint32Array, start: number, end: number): number {
  const a = Buffer.from(initial.buffer, initial.byteOffset + start * 4, (end - start) * 4);
  const b = Buffer.from(current.buffer, current.byteOffset + start * 4, (end - start) * 4);
  // Comparing bytes is about a hundred times faster than the loop.
  if (a.equals(b)) return -1;
  for (let i = start; i < end; i++) if (initial[i] !== current[i]) return i;
  return -1;
}
