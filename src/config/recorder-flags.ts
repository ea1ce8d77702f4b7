import { namePattern, nameRule } from '../agent/shapes/common.ts';
import type { Verb } from '../recorder/types.ts';
import { type RackId, racks } from '../tracing/index.ts';
import { parseExpiry } from '../words/expiry.ts';
import { didYouMean } from '../words/nearest.ts';

/** A request of the command `recorder`. */
export type RecorderRequest =
  | { readonly action: 'racks' }
  | { readonly action: 'grants'; readonly rack?: RackId }
  | {
      readonly action: 'grant';
      readonly rack: RackId;
      readonly verbs: readonly Verb[];
      readonly expires: (now: Date) => Date;
      /** `bearer`: the holder of the host's bearer token. */
      readonly to?: string;
      /** Default: now. */
      readonly from?: 'now' | 'beginning';
    }
  | {
      readonly action: 'token';
      readonly rack: RackId;
      readonly expires?: (now: Date) => Date;
      readonly label?: string;
      readonly to?: string;
    }
  /** `name`: the id of a grant or a token. */
  | { readonly action: 'revoke'; readonly name: string }
  | { readonly action: 'review'; readonly rack?: RackId; readonly after?: number };
export type RecorderAction = RecorderRequest['action'];

/** Parsers of the flags. Each throws a RangeError with a message for the user. */
const flagParsers = {
  rack(text: string): RackId {
    const known: readonly string[] = racks;
    if (known.includes(text)) return text as RackId;
    const suggestion = didYouMean(text, racks, (name) => `'${name}'`);
    throw new RangeError(`there is no rack '${text}'${suggestion}; the racks are: ${racks.join(', ')}`);
  },
  verbs(text: string): Verb[] {
    const verbs = text.split(',').map((verb) => verb.trim());
    if (verbs.every((verb) => verb === 'read' || verb === 'write')) return [...new Set(verbs)];
    throw new RangeError(`expected read, write or read,write, got '${text}'`);
  },
  expires: parseExpiry,
  to(text: string): string {
    if (text === 'bearer' || (text.startsWith('peer:') && namePattern.test(text.slice(5)))) return text;
    throw new RangeError(`expected bearer or peer:NAME, got '${text}'; for NAME, ${nameRule}`);
  },
  from(text: string): 'now' | 'beginning' {
    if (text === 'now' || text === 'beginning') return text;
    throw new RangeError(`expected now or beginning, got '${text}'`);
  },
  label(text: string): string {
    if (text !== '' && text.length <= 100) return text;
    throw new RangeError('expected 1 to 100 characters');
  },
  after(text: string): number {
    if (/^\d{1,15}$/.test(text)) return Number(text);
    throw new RangeError(`expected the number of an entry, got '${text}'`);
  },
} as const;
type RecorderFlag = keyof typeof flagParsers;
export const recorderFlags = Object.keys(flagParsers) as RecorderFlag[];

const flagsByAction: Readonly<
  Record<
    RecorderAction,
    { readonly required?: readonly RecorderFlag[]; readonly optional?: readonly RecorderFlag[] }
  >
> = {
  racks: {},
  grants: { optional: ['rack'] },
  grant: { required: ['rack', 'verbs', 'expires'], optional: ['to', 'from'] },
  token: { required: ['rack'], optional: ['expires', 'label', 'to'] },
  revoke: {},
  review: { optional: ['rack', 'after'] },
};

/** Parses and validates the flags of an action; adds faults. */
export function parseRecorderFlags(
  action: RecorderAction,
  given: ReadonlyMap<string, string>,
  faults: string[],
): Readonly<Record<string, unknown>> {
  const { required = [], optional = [] } = flagsByAction[action];
  const missing = required.filter((name) => !given.has(name));
  if (missing.length > 0)
    faults.push(`recorder ${action} needs ${missing.map((name) => examples[name]).join(' ')}`);
  const values: Record<string, unknown> = {};
  for (const name of recorderFlags) {
    const text = given.get(name);
    if (text === undefined) continue;
    if (!required.includes(name) && !optional.includes(name)) {
      faults.push(`--${name} does not belong to the command recorder ${action}`);
      continue;
    }
    try {
      values[name] = flagParsers[name](text);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      faults.push(`--${name}: ${error.message}`);
    }
  }
  return values;
}

const examples: Readonly<Partial<Record<RecorderFlag, string>>> = {
  rack: '--rack RACK',
  verbs: '--verbs read,write',
  expires: '--expires 30d',
};
