import type { Gpu } from './device.ts';

/** Times single compute passes: with timestamp queries, or with the CPU clock when the adapter has none. */
export class PassTimer {
  readonly #gpu: Gpu;
  readonly #querySet: GPUQuerySet | undefined;
  readonly #resolved: GPUBuffer | undefined;
  readonly #readback: GPUBuffer | undefined;

  constructor(gpu: Gpu) {
    this.#gpu = gpu;
    if (!gpu.timestamps) return;
    const { device } = gpu;
    this.#querySet = device.createQuerySet({ label: 'pass_timer', type: 'timestamp', count: 2 });
    this.#resolved = device.createBuffer({
      label: 'pass_timer.resolved',
      size: 16,
      usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC,
    });
    this.#readback = device.createBuffer({
      label: 'pass_timer.readback',
      size: 16,
      usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
    });
  }

  /** Resolves with the time in ms of a pass with the commands that `encode` adds. */
  async time(encode: (pass: GPUComputePassEncoder) => void): Promise<number> {
    const { device } = this.#gpu;
    const encoder = device.createCommandEncoder();
    if (!this.#querySet || !this.#resolved || !this.#readback) {
      const pass = encoder.beginComputePass();
      encode(pass);
      pass.end();
      const start = performance.now();
      device.queue.submit([encoder.finish()]);
      await device.queue.onSubmittedWorkDone();
      return performance.now() - start;
    }
    const pass = encoder.beginComputePass({
      timestampWrites: { querySet: this.#querySet, beginningOfPassWriteIndex: 0, endOfPassWriteIndex: 1 },
    });
    encode(pass);
    pass.end();
    encoder.resolveQuerySet(this.#querySet, 0, 2, this.#resolved, 0);
    encoder.copyBufferToBuffer(this.#resolved, 0, this.#readback, 0, 16);
    device.queue.submit([encoder.finish()]);
    await this.#readback.mapAsync(GPUMapMode.READ);
    const [begin = 0n, end = 0n] = new BigUint64Array(this.#readback.getMappedRange().slice(0));
    this.#readback.unmap();
    return Number(end - begin) / 1e6;
  }

  destroy(): void {
    this.#querySet?.destroy();
    this.#resolved?.destroy();
    this.#readback?.destroy();
  }
}
