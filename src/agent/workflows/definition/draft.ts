import type { z } from 'zod';
import { isRecord } from '../../../util/json.ts';
import { gate, inlineAgent, input, maxSteps, step } from './ensemble.ts';
import type { TomlDocument } from './toml-document.ts';

/**
 * The readable parts of a source that may have errors, for checks that compare one part with another. Malformed parts
 * are undefined here; the schema reports them.
 */
export interface Draft {
  readonly inputs: ReadonlyMap<string, z.infer<typeof input> | undefined>;
  readonly agents: ReadonlyMap<string, z.infer<typeof inlineAgent> | undefined>;
  readonly steps: readonly DraftStep[];
  readonly document: TomlDocument;
}

type StepShape = typeof step.shape;
export type DraftStep = { readonly [Key in keyof StepShape]: z.infer<StepShape[Key]> | undefined } & {
  /** Index in `[[steps]]`. */
  readonly index: number;
  readonly has: (key: keyof StepShape) => boolean;
};

export function readDraft(document: TomlDocument): Draft {
  const { inputs, agents, steps } = document.value;
  return {
    inputs: new Map(tableEntries(inputs).map(([name, value]) => [name, input.safeParse(value).data])),
    agents: new Map(tableEntries(agents).map(([name, value]) => [name, inlineAgent.safeParse(value).data])),
    steps: (Array.isArray(steps) ? steps : []).slice(0, maxSteps).map(parseDraftStep),
    document,
  };
}

function parseDraftStep(value: unknown, index: number): DraftStep {
  const members = Object.fromEntries(tableEntries(value));
  const parsed = Object.entries(step.shape).map(([key, shape]) => [key, shape.safeParse(members[key]).data]);
  const has = (key: string) => members[key] !== undefined;
  return { ...Object.fromEntries(parsed), index, has } as DraftStep;
}

export const tableEntries = (value: unknown) => (isRecord(value) ? Object.entries(value) : []);

/** The schemas of gates, by kind. */
export const gateSchemas = new Map(
  gate.options.map((option) => [option.shape.kind.value as string, option.shape]),
);
