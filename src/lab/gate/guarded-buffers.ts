/** Buffers for one run of a kernel, each with canary words before and after the bound range. */
import { type Contract, type ContractBinding, packUniform } from '../../../kernels/contracts.ts';
import type { ParityCase } from '../types.ts';

/** In bytes. Storage binding offsets that are multiples of it are valid on every adapter. */
const alignment = 256;
const canaryWords = alignment / 4;

interface Guarded {
  readonly binding: ContractBinding;
  readonly number: number;
  readonly buffer: GPUBuffer;
  /** Of the bound range, in bytes, like `size`. */
  readonly offset: number;
  readonly size: number;
  /** Contents of the whole buffer before the run. */
  readonly before: Uint32Array<ArrayBuffer>;
}

/** Contents of the buffers after a run, and words that changed outside of the outputs. */
export interface AfterRun {
  /** Contents of the writable bindings, by name. */
  readonly written: Readonly<Record<string, Uint32Array<ArrayBuffer>>>;
  /** Canaries that changed. `word` is relative to the start of the binding (negative) or to its end. */
  readonly canaries: readonly { readonly binding: string; readonly word: number }[];
  /** Words of bindings of role `in` that changed. */
  readonly inputs: readonly { readonly binding: string; readonly word: number }[];
}

export class GuardedBuffers {
  readonly #device: GPUDevice;
  readonly #guarded: readonly Guarded[];
  readonly #uniforms: readonly { readonly number: number; readonly buffer: GPUBuffer }[];

  /**
   * @param contents words of every storage binding, by name
   * @param leadingCanaries number of canary areas before each binding. It also selects the order in which the buffers
   * are created, so that two runs with different values do not get the same memory.
   */
  constructor(
    device: GPUDevice,
    contract: Contract,
    one: ParityCase,
    { contents, lead }: { contents: Readonly<Record<string, Uint32Array>>; lead: number },
  ) {
    this.#device = device;
    const numbered = contract.bindings.map((binding, number) => ({ binding, number }));
    if (lead % 2 === 0) numbered.reverse();
    const storage = numbered.filter(({ binding }) => binding.role !== 'uniform');
    this.#guarded = storage.map(({ binding, number }) => {
      const content = contents[binding.name];
      if (!content) throw new Error(`case ${one.name} has no contents for ${binding.name}`);
      const offset = alignment * lead;
      const words = offset / 4 + content.length + canaryWords;
      const before = new Uint32Array(words);
      for (let i = 0; i < words; i++) before[i] = canary(number, lead, i);
      before.set(content, offset / 4);
      const buffer = device.createBuffer({
        label: binding.name,
        size: words * 4,
        usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC,
      });
      device.queue.writeBuffer(buffer, 0, before);
      return { binding, number, buffer, offset, size: content.byteLength, before };
    });
    this.#uniforms = numbered
      .filter(({ binding }) => binding.role === 'uniform')
      .map(({ binding, number }) => {
        const bytes = packUniform(
          binding,
          binding.name === 'step' ? { tokens: one.dims['tokens'] ?? 1 } : one.params,
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
    return this.#guarded.reduce((sum, { before }) => sum + before.byteLength, 0);
  }

  /** Creates a bind group for the contract's layout. */
  bindGroup(layout: GPUBindGroupLayout): GPUBindGroup {
    const entries = [
      ...this.#guarded.map(({ number, buffer, offset, size }) => ({
        binding: number,
        resource: { buffer, offset, size },
      })),
      ...this.#uniforms.map(({ number, buffer }) => ({ binding: number, resource: { buffer } })),
    ];
    return this.#device.createBindGroup({ layout, entries });
  }

  /** Overwrites the contents of `in` and `inout` bindings. `out` bindings do not change. */
  rewrite(contents: Readonly<Record<string, Uint32Array<ArrayBuffer>>>): void {
    for (const { binding, buffer, offset, before } of this.#guarded) {
      const words = contents[binding.name];
      if (binding.role === 'out' || !words) continue;
      this.#device.queue.writeBuffer(buffer, offset, words);
      before.set(words, offset / 4);
    }
  }

  /** Copies the storage buffers to `target` at byte offset `at`. @returns the number of bytes */
  copyTo(encoder: GPUCommandEncoder, target: GPUBuffer, at: number): number {
    let end = at;
    for (const { buffer, before } of this.#guarded) {
      encoder.copyBufferToBuffer(buffer, 0, target, end, before.byteLength);
      end += before.byteLength;
    }
    return end - at;
  }

  /** Evaluates the data that `copyTo` copied. */
  inspect(copied: ArrayBuffer, at: number): AfterRun {
    const written: Record<string, Uint32Array<ArrayBuffer>> = {};
    const canaries: { binding: string; word: number }[] = [];
    const inputs: { binding: string; word: number }[] = [];
    let start = at;
    for (const { binding, offset, size, before } of this.#guarded) {
      const { name, role } = binding;
      const after = new Uint32Array(copied, start, before.length);
      start += before.byteLength;
      const [first, end] = [offset / 4, (offset + size) / 4];
      const head = firstDifference(before, after, 0, first);
      const tail = firstDifference(before, after, end, before.length);
      if (head >= 0) canaries.push({ binding: name, word: head - first });
      if (tail >= 0) canaries.push({ binding: name, word: tail - end });
      if (role === 'in') {
        const changed = firstDifference(before, after, first, end);
        if (changed >= 0) inputs.push({ binding: name, word: changed - first });
      } else {
        written[name] = after.subarray(first, end);
      }
    }
    return { written, canaries, inputs };
  }

  destroy(): void {
    for (const { buffer } of [...this.#guarded, ...this.#uniforms]) buffer.destroy();
  }
}

const canary = (binding: number, lead: number, word: number): number =>
  (0xca9a0000 ^ Math.imul(word + 1, 0x9e3779b1) ^ (binding << 24) ^ lead) >>> 0;

function firstDifference(before: Uint32Array, after: Uint32Array, start: number, end: number): number {
  const a = Buffer.from(before.buffer, before.byteOffset + start * 4, (end - start) * 4);
  const b = Buffer.from(after.buffer, after.byteOffset + start * 4, (end - start) * 4);
  // Comparing bytes is about a hundred times faster than the loop.
  if (a.equals(b)) return -1;
  for (let i = start; i < end; i++) if (before[i] !== after[i]) return i;
  return -1;
}
