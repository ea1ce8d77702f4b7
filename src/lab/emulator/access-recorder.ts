/** Records which addresses the lanes of a subgroup touch together, and what that costs a GPU's memory. */
import type { SourceLocation, Token } from '../wgsl/tokens.ts';
import type { Invocation } from './compile-module.ts';
import type { EmulatedMemory } from './runtime.ts';
import { Tracer } from './tracer.ts';

/** Bytes that device memory and the second-level cache deliver at least, on NVIDIA's, AMD's and Intel's GPUs. */
export const sectorBytes = 32;
const banks = 32;
const bankBytes = 4;
/** Bytes that workgroup memory delivers at once; wider accesses of a subgroup take several turns. */
const turnBytes = banks * bankBytes;

/** All accesses at one place of the source. */
export interface AccessSite extends SourceLocation {
  /** The variable. */
  readonly name: string;
  readonly space: 'storage' | 'workgroup';
  readonly writes: boolean;
  /** Instructions of subgroups. */
  readonly requests: number;
  /** Bytes that a lane accesses at once. */
  readonly bytes: number;
  /** Fraction of the lanes of a subgroup that access something, on average. */
  readonly activeLanes: number;
  /** Sectors touched, and those that the different bytes would fill; of storage. */
  readonly sectors: number;
  readonly neededSectors: number;
  /** Largest number of turns that a bank needs where one would do; of workgroup memory. */
  readonly bankConflict: number;
}

interface Request {
  /** Addresses of the lanes that take part. */
  readonly addresses: number[];
  readonly bytes: number;
  /** Lanes of the subgroup. */
  readonly lanes: number;
}

interface SiteRecord {
  readonly memory: EmulatedMemory;
  readonly writes: boolean;
  /** Accesses of each invocation so far in this workgroup, by its number. */
  readonly turns: Map<number, number>;
  /** By subgroup and turn. */
  readonly open: Map<string, Request>;
  bytes: number;
  requests: number;
  activeLanes: number;
  sectors: number;
  neededSectors: number;
  bankConflict: number;
}

/** A barrier in the source. */
export interface BarrierSite extends SourceLocation {
  /** How often workgroups waited there. */
  readonly count: number;
}

/** What workgroups fetch of a memory, when the first-level cache keeps all that a workgroup has read. */
export interface Fetched {
  /** The variable. */
  readonly name: string;
  /** Different bytes that each workgroup reads, and the sectors that they lie in, added up. */
  readonly bytes: number;
  readonly sectors: number;
}

const popcount = (word: number): number => {
  let count = 0;
  for (let rest = word >>> 0; rest !== 0; rest = (rest & (rest - 1)) >>> 0) count += 1;
  return count;
};

/** For kernels that are compiled with `isTraced`. The n-th access of each lane at a place is taken for one instruction. */
export class AccessRecorder extends Tracer {
  readonly #memories: ReadonlyMap<EmulatedMemory, string>;
  readonly #workgroupMemory: ReadonlySet<EmulatedMemory>;
  readonly #sites = new Map<string, SiteRecord & { readonly token: number }>();
  readonly #barriers = new Map<number, number>();
  #invocations = 0;
  /** The bytes that the present workgroup has read, a bit each, by memory and sector. */
  readonly #read = new Map<EmulatedMemory, Map<number, number>>();
  readonly #fetched = new Map<EmulatedMemory, { bytes: number; sectors: number }>();

  constructor(
    tokens: readonly Token[],
    memories: ReadonlyMap<string, EmulatedMemory>,
    workgroupMemory: Iterable<EmulatedMemory>,
    maxTurns?: number,
  ) {
    super(tokens, maxTurns);
    this.#memories = new Map([...memories].map(([name, memory]) => [memory, name]));
    this.#workgroupMemory = new Set(workgroupMemory);
  }

  override startWorkgroup(invocations: number): void {
    this.#close();
    this.#invocations = invocations;
  }

  override barrier(_name: string, site: number): void {
    this.#barriers.set(site, (this.#barriers.get(site) ?? 0) + 1);
  }

  /** Barriers of all workgroups. */
  get barriers(): number {
    return this.barrierSites().reduce((sum, { count }) => sum + count, 0);
  }

  /** In the order of the source. */
  barrierSites(): BarrierSite[] {
    return [...this.#barriers]
      .sort(([a], [b]) => a - b)
      .map(([site, count]) => ({ ...this.locationOf(site), count }));
  }

  /** Storage alone, in no order. */
  fetched(): Fetched[] {
    this.#close();
    return [...this.#fetched].map(([memory, { bytes, sectors }]) => ({
      name: this.#memories.get(memory) ?? '',
      bytes,
      sectors,
    }));
  }

  /** In the order of the source. */
  sites(): AccessSite[] {
    this.#close();
    return [...this.#sites.values()]
      .sort((a, b) => a.token - b.token)
      .map(
        ({ memory, writes, token, bytes, requests, activeLanes, sectors, neededSectors, bankConflict }) => ({
          ...this.locationOf(token),
          name: this.#memories.get(memory) ?? '',
          space: this.#workgroupMemory.has(memory) ? 'workgroup' : 'storage',
          writes,
          bytes,
          requests,
          activeLanes: activeLanes / requests,
          sectors,
          neededSectors,
          bankConflict,
        }),
      );
  }

  override access(
    memory: EmulatedMemory,
    address: number,
    bytes: number,
    token: number,
    invocation: Invocation,
    writes: boolean,
  ): void {
    const key = `${token} ${writes}`;
    let site = this.#sites.get(key);
    if (!site) {
      site = {
        memory,
        writes,
        token,
        turns: new Map(),
        open: new Map(),
        bytes: 0,
        requests: 0,
        activeLanes: 0,
        sectors: 0,
        neededSectors: 0,
        bankConflict: 0,
      };
      this.#sites.set(key, site);
    }
    if (!writes && !this.#workgroupMemory.has(memory)) this.#markRead(memory, address, bytes);
    site.bytes = Math.max(site.bytes, bytes);
    const local = invocation.local_invocation_index;
    const turn = site.turns.get(local) ?? 0;
    site.turns.set(local, turn + 1);
    const group = `${invocation.subgroup_id} ${turn}`;
    const request = site.open.get(group);
    if (request) request.addresses.push(address);
    else {
      const lanes = Math.min(invocation.subgroup_size, this.#invocations);
      site.open.set(group, { addresses: [address], bytes, lanes });
    }
  }

  #markRead(memory: EmulatedMemory, address: number, bytes: number): void {
    let sectors = this.#read.get(memory);
    if (!sectors) this.#read.set(memory, (sectors = new Map()));
    for (let at = address; at < address + bytes; at++) {
      const sector = Math.floor(at / sectorBytes);
      sectors.set(sector, (sectors.get(sector) ?? 0) | (1 << (at % sectorBytes)));
    }
  }

  /** Counts what the last workgroup did. */
  #close(): void {
    for (const [memory, sectors] of this.#read) {
      const sum = this.#fetched.get(memory) ?? { bytes: 0, sectors: 0 };
      for (const mask of sectors.values()) sum.bytes += popcount(mask);
      sum.sectors += sectors.size;
      this.#fetched.set(memory, sum);
    }
    this.#read.clear();
    for (const site of this.#sites.values()) {
      const isWorkgroup = this.#workgroupMemory.has(site.memory);
      for (const request of site.open.values()) {
        site.requests += 1;
        site.activeLanes += Math.min(1, request.addresses.length / request.lanes);
        if (isWorkgroup) site.bankConflict = Math.max(site.bankConflict, bankConflictOf(request));
        else {
          const { touched, needed } = sectorsOf(request);
          site.sectors += touched;
          site.neededSectors += needed;
        }
      }
      site.open.clear();
      site.turns.clear();
    }
  }
}

function sectorsOf({ addresses, bytes }: Pick<Request, 'addresses' | 'bytes'>): {
  touched: number;
  needed: number;
} {
  const sectors = new Set<number>();
  const starts = new Set(addresses);
  for (const start of starts) {
    for (let sector = Math.floor(start / sectorBytes); sector * sectorBytes < start + bytes; sector++)
      sectors.add(sector);
  }
  return { touched: sectors.size, needed: Math.ceil((starts.size * bytes) / sectorBytes) };
}

/** Different words of a bank that one turn of a subgroup reads, at most. */
function bankConflictOf({ addresses, bytes }: Pick<Request, 'addresses' | 'bytes'>): number {
  const lanesPerTurn = Math.max(1, Math.floor(turnBytes / Math.max(bytes, bankBytes)));
  let worst = 1;
  for (let first = 0; first < addresses.length; first += lanesPerTurn) {
    const words = new Set<number>();
    for (const start of addresses.slice(first, first + lanesPerTurn)) {
      for (let word = Math.floor(start / bankBytes); word * bankBytes < start + bytes; word++)
        words.add(word);
    }
    const perBank = new Map<number, number>();
    for (const word of words) perBank.set(word % banks, (perBank.get(word % banks) ?? 0) + 1);
    worst = Math.max(worst, ...perBank.values());
  }
  return worst;
}
