/** What compiled kernels report while they run. */
import { locationOf, type SourceLocation, type Token } from '../wgsl/tokens.ts';
import type { Invocation } from './compile-module.ts';
import { EmulationError } from './emulation-error.ts';
import type { EmulatedMemory, MemoryPointer } from './runtime.ts';

export type FindingKind =
  /** An index beyond the end of an array. WebGPU reads or writes another element, or none. */
  | 'index_out_of_bounds'
  /** Not all invocations of a workgroup reach the same barrier. */
  | 'nonuniform_barrier'
  /** Lanes of a subgroup that have not returned do not execute a subgroup operation together. */
  | 'nonuniform_subgroup_operation'
  /** A shuffle or broadcast from a lane that does not execute it. */
  | 'inactive_lane'
  /** Two invocations access the same memory, at least one writes, and nothing orders them. */
  | 'race';

export interface Finding extends SourceLocation {
  readonly kind: FindingKind;
  readonly message: string;
}

/** Collects findings, one for each kind and place, and ends loops without end. */
export class Tracer {
  readonly #tokens: readonly Token[];
  readonly #findings = new Map<string, Finding>();
  #turnsLeft: number;

  /** @param maxTurns of loops, and calls, of a dispatch together */
  constructor(tokens: readonly Token[], maxTurns = 2e9) {
    this.#tokens = tokens;
    this.#turnsLeft = maxTurns;
  }

  get findings(): readonly Finding[] {
    return [...this.#findings.values()];
  }

  /** @param site token index */
  find(kind: FindingKind, site: number, message: string): void {
    const key = `${kind} ${site}`;
    if (this.#findings.has(key)) return;
    this.#findings.set(key, { kind, message, ...this.locationOf(site) });
  }

  /** An index of an array of `length` elements, clamped to it as WebGPU allows. */
  index(index: number, length: number, site: number): number {
    if (index >= 0 && index < length) return index;
    this.find('index_out_of_bounds', site, `index ${index} of an array of ${length}`);
    return Math.min(Math.max(index, 0), Math.max(length - 1, 0));
  }

  locationOf(site: number): SourceLocation {
    return locationOf(this.#tokens, { from: site, to: site + 1 });
  }

  /** Called before a workgroup runs. */
  startWorkgroup(_invocations: number): void {}

  /** Called when all invocations of a workgroup have reached a barrier. */
  barrier(_name: string, _site: number): void {}

  /** Called before each access, where kernels are compiled for it. `address` and `bytes` within `memory`. */
  access(
    _memory: EmulatedMemory,
    _address: number,
    _bytes: number,
    _site: number,
    _invocation: Invocation,
    _writes: boolean,
  ): void {}

  atomic(_pointer: MemoryPointer, _site: number, _invocation: Invocation): void {}

  /** Called in each turn of a loop and each call of a function. */
  turn(): void {
    if (--this.#turnsLeft < 0)
      throw new EmulationError('so many turns of loops and calls: the kernel may not end');
  }
}
