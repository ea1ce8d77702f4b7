/** What a device had no memory for. */
export interface Refusal {
  readonly bytes: number;
  readonly reason: string;
}

/** The GPU memory of one owner: labelled, counted, destroyed together. */
export class BufferPool {
  readonly device: GPUDevice;
  readonly #buffers: GPUBuffer[] = [];
  #bytes = 0;
  /** What became of each allocation since `watch`. */
  #watched: Promise<Refusal | undefined>[] | undefined;

  constructor(device: GPUDevice) {
    this.device = device;
  }

  /** Bytes allocated so far. */
  get bytes(): number {
    return this.#bytes;
  }

  /** From here on refusals are kept for `refused`; elsewhere they are errors of the device that nobody handles. */
  watch(): void {
    this.#watched = [];
  }

  /** Ends `watch`: what of all that was asked for the device had no memory for. */
  async refused(): Promise<readonly Refusal[]> {
    const watched = this.#watched ?? [];
    this.#watched = undefined;
    return (await Promise.all(watched)).filter((refusal) => refusal !== undefined);
  }

  /** Storage, zeroed by WebGPU. Sizes are rounded up to whole 16-byte words. */
  storage(label: string, sizeBytes: number): GPUBuffer {
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
    return this.#create(label, sizeBytes, usage);
  }

  uniform(label: string, contents: ArrayBuffer): GPUBuffer {
    const buffer = this.#create(label, contents.byteLength, GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST);
    this.device.queue.writeBuffer(buffer, 0, contents);
    return buffer;
  }

  /** Storage that kernels also read as uniforms. */
  shared(label: string, sizeBytes: number): GPUBuffer {
    const both = GPUBufferUsage.STORAGE | GPUBufferUsage.UNIFORM;
    return this.#create(label, sizeBytes, both | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC);
  }

  readback(label: string, sizeBytes: number): GPUBuffer {
    return this.#create(label, sizeBytes, GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST);
  }

  #create(label: string, sizeBytes: number, usage: number): GPUBuffer {
    const size = Math.max(16, Math.ceil(sizeBytes / 16) * 16);
    const watched = this.#watched;
    if (watched) this.device.pushErrorScope('out-of-memory');
    const buffer = this.device.createBuffer({ label, size, usage });
    watched?.push(
      this.device
        .popErrorScope()
        .then((error) => (error ? { bytes: size, reason: error.message } : undefined)),
    );
    this.#buffers.push(buffer);
    this.#bytes += size;
    return buffer;
  }

  destroy(): void {
    for (const buffer of this.#buffers) buffer.destroy();
    this.#buffers.length = 0;
    this.#bytes = 0;
  }
}
