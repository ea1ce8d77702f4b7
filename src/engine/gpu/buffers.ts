/** A buffer that the device could not allocate. */
export interface AllocationFailure {
  readonly bytes: number;
  readonly reason: string;
}

/** The GPU buffers of one owner: labeled, counted, and destroyed together. */
export class BufferPool {
  readonly device: GPUDevice;
  readonly #buffers: GPUBuffer[] = [];
  #bytes = 0;
  /** Allocation results since `watchAllocations`. */
  #pendingAllocations: Promise<AllocationFailure | undefined>[] | undefined;

  constructor(device: GPUDevice) {
    this.device = device;
  }

  /** Bytes allocated so far. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Starts collecting allocation failures for `takeFailures`. Without it, they are uncaptured errors of the device. */
  watchAllocations(): void {
    this.#pendingAllocations = [];
  }

  /** Ends `watchAllocations` and returns the allocations that failed. */
  async takeFailures(): Promise<readonly AllocationFailure[]> {
    const pendingAllocations = this.#pendingAllocations ?? [];
    this.#pendingAllocations = undefined;
    return (await Promise.all(pendingAllocations)).filter((refusal) => refusal !== undefined);
  }

  /** Creates a storage buffer, zeroed by WebGPU, with its size rounded up to whole 16-byte words. */
  storage(label: string, sizeBytes: number): GPUBuffer {
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
    return this.#create(label, sizeBytes, usage);
  }

  uniform(label: string, contents: ArrayBuffer): GPUBuffer {
    const buffer = this.#create(label, contents.byteLength, GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST);
    this.device.queue.writeBuffer(buffer, 0, contents);
    return buffer;
  }

  /** Creates a storage buffer that kernels can also bind as a uniform. */
  storageUniform(label: string, sizeBytes: number): GPUBuffer {
    const both = GPUBufferUsage.STORAGE | GPUBufferUsage.UNIFORM;
    return this.#create(label, sizeBytes, both | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC);
  }

  readback(label: string, sizeBytes: number): GPUBuffer {
    return this.#create(label, sizeBytes, GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST);
  }

  #create(label: string, sizeBytes: number, usage: number): GPUBuffer {
    const size = Math.max(16, Math.ceil(sizeBytes / 16) * 16);
    const pendingAllocations = this.#pendingAllocations;
    if (pendingAllocations) this.device.pushErrorScope('out-of-memory');
    const buffer = this.device.createBuffer({ label, size, usage });
    pendingAllocations?.push(
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
