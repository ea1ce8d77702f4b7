import { errorMessage } from '../../../util/error-message.ts';
import { Refusal } from '../refusal.ts';

interface Finding {
  readonly severity: 'error' | 'warning' | 'info';
  readonly code: string;
  readonly message: string;
  readonly line?: number;
}

export interface LabRegistration {
  readonly name: string;
  readonly op: string;
  readonly source: string;
  readonly entry_point?: string;
  readonly dispatch: { readonly x: string; readonly y?: string; readonly z?: string };
  readonly overrides?: Readonly<Record<string, number>>;
  readonly tunables?: Readonly<Record<string, readonly number[]>>;
  readonly requires?: readonly ('shader-f16' | 'subgroups')[];
  readonly dtypes?: readonly string[];
}

export interface LabComparison {
  readonly ratio: number;
  readonly ci95: { readonly low: number; readonly high: number };
  readonly verdict: string;
}

/** The part of the kernel lab that agents use. Every lab implements it structurally. */
export interface LabReader {
  graph(): Promise<{
    readonly model: string;
    readonly nodes: readonly {
      readonly id: string;
      readonly op: string;
      readonly component: string;
      readonly kernel: string;
      readonly dtype: string;
      readonly shape: readonly (number | string)[];
      readonly gpu_ms?: number;
    }[];
    readonly spans: readonly { readonly id: string; readonly op: string; readonly fused_kernel?: string }[];
  }>;
  parts(): Promise<{
    readonly components: readonly { readonly id: string; readonly op: string; readonly kernel: string }[];
    readonly slots: readonly {
      readonly slot: string;
      readonly op: string;
      readonly swappable: boolean;
      readonly compatible: readonly string[];
      readonly bound: string;
    }[];
    readonly kernels: readonly {
      readonly name: string;
      readonly op: string;
      readonly digest: string;
      readonly state: string;
    }[];
  }>;
  ops(): readonly { readonly op: string; readonly [member: string]: unknown }[];
  stub(
    op: string,
    options?: { readonly target?: string; readonly format?: string; readonly component?: string },
  ): Promise<{ readonly target: string; readonly source: string }>;
  configNames(): Promise<readonly string[]>;
  register(
    registration: LabRegistration,
    signal: AbortSignal,
  ): Promise<{
    readonly kernel: string;
    readonly digest: string;
    readonly accepted: boolean;
    readonly stages: readonly {
      readonly stage: string;
      readonly ok: boolean;
      readonly findings: readonly Finding[];
    }[];
    readonly tuning?: readonly {
      readonly shape: string;
      readonly best: Readonly<Record<string, number>>;
      readonly best_ms: number;
      readonly builtin_ms?: number;
    }[];
    readonly parity?: readonly {
      readonly case: string;
      readonly ok: boolean;
      readonly nmse: number;
      readonly nmse_limit: number;
      readonly worst: { readonly index: number; readonly expected: number; readonly got: number };
    }[];
  }>;
  bind(
    request: {
      readonly kernel: string;
      readonly components?: readonly string[];
      readonly span?: string;
    },
    signal: AbortSignal,
  ): Promise<{ readonly components: readonly string[]; readonly replaced: readonly string[] }>;
  unbind(): Promise<void>;
  saveConfig(name: string): Promise<{ readonly name: string }>;
  runParity(signal: AbortSignal): Promise<{
    readonly ok: boolean;
    readonly components: readonly {
      readonly id: string;
      readonly kernel: string;
      readonly nmse: number;
      readonly nmse_limit: number;
      readonly ok: boolean;
    }[];
    readonly logits: { readonly kl: number; readonly top1_agreement: number; readonly positions: number };
  }>;
  bench(
    request: {
      readonly prompt_tokens?: number;
      readonly new_tokens?: number;
      readonly rounds?: number;
      readonly contexts?: readonly number[];
      readonly seed?: number;
      readonly mode?: 'quick' | 'full';
    },
    signal: AbortSignal,
  ): Promise<{
    readonly verdict: string;
    readonly baseline: { readonly prefill_tps: number; readonly decode_tps: number };
    readonly bound: { readonly prefill_tps: number; readonly decode_tps: number };
    readonly ratio_ci95: readonly [number, number];
    readonly prefill: LabComparison;
    readonly decode: readonly (LabComparison & { readonly context: number })[];
    readonly components: readonly {
      readonly id: string;
      readonly kernel: string;
      readonly gpu_ms: number;
      readonly baseline_ms?: number;
      readonly peak_fraction: number;
      readonly hint: string;
    }[];
    readonly warnings: readonly string[];
  }>;
}

/** Returns the lab of the resident model. Throws an error with a message for people when there is none. */
export type GetLab = () => LabReader;

export const labUnavailableReason = (lab: GetLab) => (): string | undefined => {
  try {
    lab();
    return undefined;
  } catch (error) {
    return `There is no kernel lab at the moment: ${errorMessage(error)}`;
  }
};

/** Converts an error of the lab to a refusal. */
export async function withLabErrorsAsRefusals<Answer>(run: () => Answer | Promise<Answer>): Promise<Answer> {
  try {
    return await run();
  } catch (error) {
    if (error instanceof Error && error.name === 'LabError')
      throw new Refusal(error.message, { cause: error });
    throw error;
  }
}

const maxShown = 24 * 1024;

/** Joins lines to an output. Lines beyond the limits are left out, and their number is appended. */
export function toLinesOutput(
  all: readonly string[],
  maxLines = 200,
): { ok: true; output: string; truncated: boolean } {
  const kept: string[] = [];
  let length = 0;
  for (const line of all) {
    length += line.length + 1;
    if (kept.length === maxLines || length > maxShown) break;
    kept.push(line);
  }
  const omitted = all.length - kept.length;
  const note = omitted === 0 ? [] : [`[${omitted} more lines; ask for less at once]`];
  return { ok: true, output: [...kept, ...note].join('\n') || '[nothing]', truncated: omitted > 0 };
}

export const formatNumber = (value: number): string => (value === 0 ? '0' : value.toPrecision(3));
