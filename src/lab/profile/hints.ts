/** What to change in a kernel, by its profile: a line, a number and a remedy. */
import type { Contract } from '../../../kernels/contracts.ts';
import { sectorBytes } from '../emulator/access-recorder.ts';
import type { LabProfile, ProfiledKernel, ProfileHint } from '../types.ts';
import { reflect, type Variable } from '../wgsl/reflect.ts';

interface HintContext {
  readonly contract: Contract;
  readonly source: string;
  /** Bytes of a binding. */
  readonly bytesOf: (name: string) => number;
  /** Whether the kernel runs on a software adapter, which has caches and SIMD registers of a CPU. */
  readonly isSoftware: boolean;
}

type Profile = Omit<LabProfile, 'hints'>;
type Site = ProfiledKernel['sites'][number];
type Access = Extract<Site, { kind: 'read' | 'write' }>;

/** A hint, and what it may save: a rough fraction of the time, to put the most valuable first. */
type Ranked = ProfileHint & {
  readonly saves: number;
  /** It holds on GPUs alone, whatever its code. */
  readonly isForGpus?: true;
};

const minSaves = 0.03;

/**
 * What costs time on a software adapter as well. Measured on lavapipe, a load costs the same whether the lanes' addresses are next to one
 * another or apart, and loads of four numbers, other strides in workgroup memory and workgroups of 1024 threads change nothing or
 * are slower: docs/decisions/lab.md.
 */
const holdsOnSoftware: ReadonlySet<ProfileHint['code']> = new Set([
  'scalar_dequantization',
  'repeated_reads',
  'barriers',
  'inactive_lanes',
]);

/** The most valuable first. On a software adapter, those that hold on GPUs alone are last, and say so. */
export function hintsFor(profile: Profile, context: HintContext): ProfileHint[] {
  const all = [
    ...uncoalesced(profile),
    ...bankConflicts(profile),
    ...repeatedReads(profile, context),
    ...sharedLoads(profile, context),
    ...readByEveryWorkgroup(profile, context),
    ...narrowLoads(profile, context),
    ...barriers(profile, context),
    ...inactiveLanes(profile),
    ...occupancy(profile),
    ...wideTiles(profile, context),
    ...fewWorkgroups(profile),
  ];
  const isForGpus = (one: Ranked): boolean =>
    context.isSoftware && (one.isForGpus === true || !holdsOnSoftware.has(one.code));
  return all
    .filter(({ saves }) => saves >= minSaves)
    .sort((a, b) => Number(isForGpus(a)) - Number(isForGpus(b)) || b.saves - a.saves)
    .map((one) => ({
      code: one.code,
      line: one.line,
      message: `${isForGpus(one) ? 'on a GPU: ' : ''}${one.message}`,
    }));
}

const isAccess = (site: Site): site is Access => site.kind !== 'barrier';
const accessesOf = ({ sites }: ProfiledKernel): Access[] => sites.filter(isAccess);
const total = (list: readonly Access[], of: (access: Access) => number): number =>
  list.reduce((sum, one) => sum + of(one), 0);
const round = (value: number): string =>
  value < 10 ? String(Number(value.toFixed(1))) : String(Math.round(value));
const percent = (part: number): string => `${Math.round(100 * part)} %`;
const verb = ({ kind }: Access): string => (kind === 'write' ? 'writes' : 'reads');

/** Touched sectors over needed ones from which an access is bad, and a bank conflict. */
const badSectorRatio = 2;
const badBankConflict = 4;

function uncoalesced({ profile, lanes }: Profile): Ranked[] {
  const storage = accessesOf(profile).filter(({ space }) => space === 'storage');
  const all = total(storage, ({ touched_sectors: touched = 0 }) => touched);
  return storage.flatMap((site) => {
    const { touched_sectors: touched = 0, needed_sectors: needed = 0, requests, line, name } = site;
    // One lane alone needs no neighbors.
    if (touched < badSectorRatio * needed || site.active_lanes * lanes < 2) return [];
    return [
      {
        code: 'uncoalesced' as const,
        line,
        saves: (touched - needed) / all,
        message:
          `line ${line} ${verb(site)} ${name} in ${round(touched / requests)} sectors of ${sectorBytes} bytes an instruction where ` +
          `${round(needed / requests)} would do, because neighboring lanes are apart: let neighboring lanes ${site.kind} neighboring elements`,
      },
    ];
  });
}

function bankConflicts({ profile }: Profile): Ranked[] {
  const shared = accessesOf(profile).filter(({ space }) => space === 'workgroup');
  const turns = total(accessesOf(profile), ({ requests, bank_conflict: ways = 1 }) => requests * ways);
  return shared.flatMap(({ line, name, kind, requests, bank_conflict: ways = 1 }) =>
    ways < badBankConflict
      ? []
      : [
          {
            code: 'bank_conflict' as const,
            line,
            saves: (requests * (ways - 1)) / turns,
            message:
              `line ${line} ${kind}s ${name}: ${ways} lanes of a subgroup need the same bank of workgroup memory, so it takes ${ways} turns ` +
              'instead of one: pad each row by an element, or let neighboring lanes access neighboring words',
          },
        ],
  );
}

/** Reads of a memory by a workgroup over what it would have to fetch once. */
const badRepeats = 4;

function repeatedReads({ profile }: Profile, { contract }: HintContext): Ranked[] {
  const storage = accessesOf(profile).filter(({ kind, space }) => kind === 'read' && space === 'storage');
  const requests = total(accessesOf(profile), (one) => one.requests);
  return profile.fetched.flatMap(({ name, bytes }) => {
    const own = storage.filter((site) => site.name === name);
    const needed = total(own, ({ needed_sectors: sectors = 0 }) => sectors);
    const times = (needed * sectorBytes) / bytes;
    const heaviest = own.toSorted((a, b) => b.requests - a.requests)[0];
    if (!heaviest || times < badRepeats) return [];
    const { line } = heaviest;
    const reads = `line ${line}: a workgroup reads each byte of ${name} ${round(times)} times`;
    const isWeights = contract.bindings.some((one) => one.name === name && one.dtype === 'weights');
    const isScalar = isWeights && name !== 'scales';
    const message = isScalar
      ? `${reads}: load a word, or a vec4 of words, once and take all of its weights from registers`
      : isWeights
        ? `${reads}: sum a block before multiplying by its scale, so that the scale is read once`
        : `${reads}: keep it in registers for several rows, or stage it in workgroup memory`;
    return [
      {
        code: isScalar ? ('scalar_dequantization' as const) : ('repeated_reads' as const),
        line,
        saves: (1 - 1 / times) * (total(own, (one) => one.requests) / requests),
        message,
      },
    ];
  });
}

/**
 * Lanes that read the same bytes, above which the load is better made once. Bytes are counted in whole sectors, so loads of one number
 * by all lanes look like those of eight numbers.
 */
const manySharers = 4;

/** Reads with one address in many lanes: a GPU makes them once, a software adapter takes as long as for an address in each lane. */
function sharedLoads({ profile, lanes }: Profile, { isSoftware }: HintContext): Ranked[] {
  if (!isSoftware) return [];
  const accesses = accessesOf(profile);
  const requests = total(accesses, (one) => one.requests);
  return accesses.flatMap((site) => {
    const { kind, space, line, name, bytes, needed_sectors: needed } = site;
    const share = site.requests / requests;
    if (kind !== 'read' || space !== 'storage' || needed === undefined || share < 0.2) return [];
    const distinct = (needed * sectorBytes) / site.requests;
    if (bytes * site.active_lanes * lanes <= manySharers * distinct) return [];
    return [
      {
        code: 'repeated_reads' as const,
        line,
        saves: share,
        message:
          `line ${line}: many lanes read the same bytes of ${name}, and on this software adapter a load takes as long for one address as for ` +
          'one in each lane: let each lane read other elements, and pass them on by subgroupShuffle',
      },
    ];
  });
}

/** An input that all workgroups fetch, where it outweighs what only one of them needs. */
function readByEveryWorkgroup({ profile, builtin }: Profile, { bytesOf }: HintContext): Ranked[] {
  const all = profile.fetched.reduce((sum, { bytes }) => sum + bytes, 0);
  const repeats = (kernel: ProfiledKernel, name: string): number => {
    const bytes = kernel.fetched.find((one) => one.name === name)?.bytes ?? 0;
    return (bytes * kernel.workgroups) / Math.max(1, bytesOf(name));
  };
  return profile.fetched.flatMap(({ name, bytes }) => {
    const times = repeats(profile, name);
    const best = Math.min(...(builtin ?? []).map((one) => repeats(one, name)).filter((one) => one > 0));
    if (times < 8 || bytes < all / 2 || times < 2 * (Number.isFinite(best) ? best : 1)) return [];
    const line = accessesOf(profile).find((site) => site.name === name && site.kind === 'read')?.line ?? 1;
    return [
      {
        code: 'read_by_every_workgroup' as const,
        line,
        saves: (bytes / all) * (1 - Math.max(1, Number.isFinite(best) ? best : 1) / times),
        message:
          `line ${line}: ${name} is fetched ${round(times)} times in all${Number.isFinite(best) ? ` (built-in: ${round(best)})` : ''}, and is ` +
          `${percent(bytes / all)} of what a workgroup fetches: compute several rows in a workgroup, so that they share it`,
      },
    ];
  });
}

/** Instructions of a subgroup below which the width of loads does not matter. */
const manyRequests = 16;

function narrowLoads({ profile, lanes }: Profile, { source }: HintContext): Ranked[] {
  const accesses = accessesOf(profile);
  const requests = total(accesses, (one) => one.requests);
  const subgroups = Math.max(1, profile.workgroup_size / lanes);
  const types = new Map(reflect(source).variables.map((one) => [one.name, one.typeText]));
  return accesses.flatMap((site) => {
    const { line, name, bytes, space } = site;
    if (space !== 'storage' || bytes > 4 || site.active_lanes < 0.5) return [];
    if (site.requests / subgroups < manyRequests) return [];
    const element = /array<\s*(f32|u32|i32|f16)\b/.exec(types.get(name) ?? '')?.[1];
    if (element === undefined) return [];
    return [
      {
        code: 'narrow_loads' as const,
        line,
        saves: (0.5 * site.requests) / requests,
        message:
          `line ${line} ${verb(site)} ${bytes} bytes of ${name} a lane, ${round(site.requests / subgroups)} times in each subgroup: declare it as ` +
          `array<vec4<${element}>> and ${site.kind} 16 bytes at once, with a quarter of the instructions`,
      },
    ];
  });
}

/** Barriers of a reduction with subgroups and a few tiles. */
const manyBarriers = 6;
/** Loads of a subgroup that take as long as a barrier on a software adapter, which changes between all threads there. */
const loadsPerBarrier = 16;

function barriers({ profile, builtin, lanes }: Profile, { isSoftware }: HintContext): Ranked[] {
  const sites = profile.sites.filter(({ kind }) => kind === 'barrier');
  const most = sites.toSorted((a, b) => b.requests - a.requests)[0];
  if (!most) return [];
  if (isSoftware) {
    const subgroups = Math.max(1, profile.workgroup_size / lanes);
    const cost = loadsPerBarrier * subgroups * profile.barriers;
    return [
      {
        code: 'barriers' as const,
        line: most.line,
        saves: cost / (cost + total(accessesOf(profile), (one) => one.requests)),
        message:
          `line ${most.line}: a workgroup waits at ${round(profile.barriers)} barriers, and on this software adapter each takes as long as about ` +
          `${loadsPerBarrier} loads: give each thread whole rows, so that no sum crosses threads, or do more work between two barriers`,
      },
    ];
  }
  const ofBuiltin = Math.max(0, ...(builtin ?? []).map((one) => one.barriers));
  if (profile.barriers <= manyBarriers) return [];
  return [
    {
      code: 'barriers' as const,
      line: most.line,
      saves: Math.min(0.6, profile.barriers / 64),
      message:
        `line ${most.line}: a workgroup waits at ${round(profile.barriers)} barriers${builtin ? ` (built-in: ${round(ofBuiltin)})` : ''}: reduce with ` +
        'subgroupAdd and one barrier for all subgroups, or do more work between two barriers',
    },
  ];
}

function inactiveLanes({ profile, lanes }: Profile): Ranked[] {
  const accesses = accessesOf(profile);
  const requests = total(accesses, (one) => one.requests);
  const sites = accesses.flatMap((site) => {
    const share = site.requests / requests;
    if (site.active_lanes >= 0.6 || share < 0.1) return [];
    const { line } = site;
    const active = site.active_lanes * lanes;
    return [
      {
        code: 'inactive_lanes' as const,
        line,
        saves: (1 - site.active_lanes) * share,
        message: `line ${line} ${verb(site)} ${site.name} with ${round(active)} of ${lanes} lanes on average: ${
          active < 1.5
            ? 'let all lanes share the work, for a sum by subgroupAdd'
            : 'let all lanes of a subgroup run the same number of turns (split rows evenly, or give a subgroup several rows)'
        }`,
      },
    ];
  });
  if (profile.workgroup_size >= lanes) return sites;
  return [
    ...sites,
    {
      code: 'inactive_lanes' as const,
      line: 1,
      saves: 1 - profile.workgroup_size / lanes,
      // A software adapter has 4 or 8 lanes.
      isForGpus: true,
      message: `workgroups of ${profile.workgroup_size} threads use ${profile.workgroup_size} of the ${lanes} lanes of a subgroup: make them a multiple of ${lanes}`,
    },
  ];
}

function occupancy({ profile }: Profile): Ranked[] {
  const { workgroup_size: size, workgroup_bytes: bytes, occupancy: ready, occupancy_limit: limit } = profile;
  if (limit === 'workgroup_memory' && ready < 0.5) {
    return [
      {
        code: 'workgroup_memory' as const,
        line: 1,
        saves: (0.5 - ready) / 2 + minSaves,
        message:
          `${bytes} bytes of workgroup memory let a GPU keep ${percent(ready)} of its threads ready: make tiles smaller, keep them in ` +
          'registers, or store them as f16',
      },
    ];
  }
  if (size <= 256) return [];
  return [
    {
      code: 'large_workgroup' as const,
      line: 1,
      saves: 0.2,
      message:
        `workgroups of ${size} threads start and end together and wait for their slowest subgroup at each barrier; GPUs keep ` +
        `${percent(ready)} of their threads ready, and many allow 256 at most: use 64 to 256 threads`,
    },
  ];
}

const smallTileBytes = 1024;

/** Tiles of f32 in workgroup memory where the op tolerates f16. */
function wideTiles({ profile }: Profile, { contract, source }: HintContext): Ranked[] {
  if (contract.exactness !== 'f16' && contract.exactness !== 'quantised') return [];
  const wide = (variable: Variable) =>
    variable.space === 'workgroup' && /\bf32\b|\bvec\d?f\b/.test(variable.typeText);
  const tiles = reflect(source).variables.filter(wide);
  const [tile] = tiles;
  if (!tile || profile.workgroup_bytes < smallTileBytes) return [];
  return [
    {
      code: 'f32_tile' as const,
      line: tile.line,
      saves: 0.08,
      message:
        `line ${tile.line}: ${tile.name} holds f32 in ${profile.workgroup_bytes} bytes of workgroup memory, and ${contract.op} tolerates f16: with ` +
        '`enable f16` it takes half the memory and half the bandwidth',
    },
  ];
}

function fewWorkgroups({ profile, builtin }: Profile): Ranked[] {
  const ofBuiltin = Math.max(0, ...(builtin ?? []).map((one) => one.workgroups));
  if (profile.workgroups * 4 > ofBuiltin) return [];
  return [
    {
      code: 'few_workgroups' as const,
      line: 1,
      saves: 0.25,
      message: `${profile.workgroups} workgroups leave units of a large GPU idle (built-in: ${ofBuiltin}): let each compute fewer rows`,
    },
  ];
}
