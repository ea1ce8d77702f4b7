/** Finds accesses to memory that nothing orders: by two invocations, at least one of which writes, without a barrier in between. */
import type { Token } from '../wgsl/tokens.ts';
import type { Invocation } from './compile-module.ts';
import type { EmulatedMemory, MemoryPointer } from './runtime.ts';
import { Tracer } from './tracer.ts';

/** WGSL's smallest location in memory, an f16. */
const cellBytes = 2;

/** What happened last to each cell of a buffer or a workgroup variable. */
class Shadow {
  /** Numbers of invocations from 1; 0: none. */
  readonly writers: Int32Array;
  readonly readers: Int32Array;
  /** Whether several invocations have read since the last write. */
  readonly isReadByMany: Uint8Array;
  /** Barriers before the access, over all workgroups. */
  readonly writeEpochs: Int32Array;
  readonly readEpochs: Int32Array;
  readonly writeSites: Int32Array;
  readonly readSites: Int32Array;
  readonly isAtomic: Uint8Array;

  constructor(cells: number) {
    this.writers = new Int32Array(cells);
    this.readers = new Int32Array(cells);
    this.isReadByMany = new Uint8Array(cells);
    this.writeEpochs = new Int32Array(cells);
    this.readEpochs = new Int32Array(cells);
    this.writeSites = new Int32Array(cells);
    this.readSites = new Int32Array(cells);
    this.isAtomic = new Uint8Array(cells);
  }
}

/**
 * For kernels that are compiled with `isTraced`. Barriers order the accesses of a workgroup: `workgroupBarrier` those to its own
 * memory, `storageBarrier` those to buffers. Nothing orders the accesses of two workgroups, or those on both sides of a subgroup
 * operation.
 */
export class RaceDetector extends Tracer {
  readonly #shadows = new Map<EmulatedMemory, Shadow>();
  readonly #workgroupMemory: ReadonlySet<EmulatedMemory>;
  readonly #writable: ReadonlySet<EmulatedMemory>;
  /** Number of the first invocation of the workgroup that runs. */
  #firstInvocation = 1;
  #workgroupEpoch = 1;
  #storageEpoch = 1;
  #epochs = 1;

  /** @param memory workgroup variables, and the buffers that the kernel may write; reads of the others are no race */
  constructor(
    tokens: readonly Token[],
    memory: { readonly ofWorkgroup: readonly EmulatedMemory[]; readonly writable: readonly EmulatedMemory[] },
    maxTurns?: number,
  ) {
    super(tokens, maxTurns);
    this.#workgroupMemory = new Set(memory.ofWorkgroup);
    this.#writable = new Set(memory.writable);
  }

  override startWorkgroup(invocations: number): void {
    this.#firstInvocation += invocations;
    this.#workgroupEpoch = this.#storageEpoch = ++this.#epochs;
  }

  override barrier(name: string): void {
    this.#epochs += 1;
    if (name === 'storageBarrier') this.#storageEpoch = this.#epochs;
    else this.#workgroupEpoch = this.#epochs;
  }

  override access(
    memory: EmulatedMemory,
    address: number,
    bytes: number,
    site: number,
    invocation: Invocation,
    writes: boolean,
  ): void {
    this.#record(memory, address, bytes, site, invocation, writes, false);
  }

  override atomic(pointer: MemoryPointer, site: number, invocation: Invocation): void {
    this.#record(pointer.memory, pointer.address, 4, site, invocation, true, true);
  }

  #record(
    memory: EmulatedMemory,
    address: number,
    bytes: number,
    site: number,
    { local_invocation_index: local }: Invocation,
    writes: boolean,
    isAtomic: boolean,
  ): void {
    const isWorkgroup = this.#workgroupMemory.has(memory);
    if (!isWorkgroup && !this.#writable.has(memory)) return;
    let shadow = this.#shadows.get(memory);
    if (!shadow) {
      shadow = new Shadow(Math.ceil(memory.sizeBytes / cellBytes));
      this.#shadows.set(memory, shadow);
    }
    const own = this.#firstInvocation + local;
    const epoch = isWorkgroup ? this.#workgroupEpoch : this.#storageEpoch;
    const end = Math.min((address + bytes) / cellBytes, shadow.writers.length);
    for (let cell = address / cellBytes; cell < end; cell++) {
      const writer = shadow.writers[cell] as number;
      const isSameAtomic = isAtomic && shadow.isAtomic[cell] === 1;
      if (
        writer !== 0 &&
        writer !== own &&
        !isSameAtomic &&
        !this.#isOrdered(writer, shadow.writeEpochs[cell] as number, epoch, isWorkgroup)
      )
        this.#report(site, shadow.writeSites[cell] as number, writes, true);
      if (writes) {
        const reader = shadow.readers[cell] as number;
        const isOther = reader !== 0 && (reader !== own || shadow.isReadByMany[cell] === 1);
        if (
          isOther &&
          !isSameAtomic &&
          !this.#isOrdered(reader, shadow.readEpochs[cell] as number, epoch, isWorkgroup)
        )
          this.#report(site, shadow.readSites[cell] as number, true, false);
        shadow.writers[cell] = own;
        shadow.writeEpochs[cell] = epoch;
        shadow.writeSites[cell] = site;
        shadow.readers[cell] = 0;
        shadow.isReadByMany[cell] = 0;
        shadow.isAtomic[cell] = isAtomic ? 1 : 0;
      } else {
        const reader = shadow.readers[cell] as number;
        const isNew =
          reader === 0 || this.#isOrdered(reader, shadow.readEpochs[cell] as number, epoch, isWorkgroup);
        shadow.isReadByMany[cell] = !isNew && (reader !== own || shadow.isReadByMany[cell] === 1) ? 1 : 0;
        shadow.readers[cell] = own;
        shadow.readEpochs[cell] = epoch;
        shadow.readSites[cell] = site;
      }
    }
  }

  /** Whether an earlier access is ordered: by a barrier of the workgroup that runs, or because its memory is that of another. */
  #isOrdered(invocation: number, then: number, now: number, isWorkgroup: boolean): boolean {
    return then < now && (isWorkgroup || invocation >= this.#firstInvocation);
  }

  #report(site: number, otherSite: number, writes: boolean, otherWrites: boolean): void {
    const { line, column } = this.locationOf(otherSite);
    const verb = (isWrite: boolean) => (isWrite ? 'writes' : 'reads');
    this.find(
      'race',
      site,
      `one invocation ${verb(writes)} here what another ${verb(otherWrites)} at ${line}:${column}, with no barrier in between`,
    );
  }
}
