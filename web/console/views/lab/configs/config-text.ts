/** Configs, and what is bound now, as texts whose difference says what they do differently. */
import { createTwoFilesPatch } from 'diff';
import type { components } from '../../../api/schema.d.ts';

type Schemas = components['schemas'];
export type Config = Schemas['LabConfig'];

/** A side of a comparison. */
export interface Side {
  readonly name: string;
  readonly bindings: readonly { readonly id: string; readonly kernel: string }[];
  readonly kernels: readonly {
    readonly name: string;
    readonly op: string;
    readonly digest: string;
    /** How it is registered. The host does not give that of what is bound now. */
    readonly registered?: Readonly<Record<string, unknown>>;
  }[];
  readonly model?: string;
}

/** @param spans nodes by id of span: with them, bindings are told by node, as those of what is bound now are */
export function sideOfConfig(config: Config, spans?: ReadonlyMap<string, readonly string[]>): Side {
  const { name, model, bindings, kernels } = config;
  return {
    name,
    model: `${model.architecture} ${model.digest}`,
    bindings: bindings.flatMap(({ kernel, components: ids }) =>
      ids.flatMap((id) => (spans?.get(id) ?? [id]).map((each) => ({ id: each, kernel }))),
    ),
    kernels: kernels.map(({ name: kernel, op, digest, ...registered }) => ({
      name: kernel,
      op,
      digest,
      registered,
    })),
  };
}

export const spansOf = ({ spans }: Schemas['LabGraph']): ReadonlyMap<string, readonly string[]> =>
  new Map(spans.map(({ id, nodes }) => [id, nodes]));

export function sideOfBound({ components: all, kernels }: Schemas['LabParts']): Side {
  const names = new Set(kernels.map(({ name }) => name));
  const bindings = all.filter(({ kernel }) => names.has(kernel)).map(({ id, kernel }) => ({ id, kernel }));
  const bound = new Set(bindings.map(({ kernel }) => kernel));
  return { name: 'bound now', bindings, kernels: kernels.filter(({ name }) => bound.has(name)) };
}

const byName = new Intl.Collator('en', { numeric: true }).compare;

/** Of a side, what both sides know. */
function lines({ model, bindings, kernels }: Side, other: Side): string[] {
  const isTold = (side: Side) => side.kernels.every(({ registered }) => registered !== undefined);
  const both = isTold(other) && other.model !== undefined && model !== undefined;
  return [
    ...(both ? [`model: ${model}`] : []),
    ...bindings.map(({ id, kernel }) => `${id} = ${kernel}`).sort(byName),
    ...kernels
      .toSorted((one, two) => byName(one.name, two.name))
      .flatMap(({ name, op, digest, registered = {} }) => [
        '',
        `kernel ${name}`,
        `  op: ${op}`,
        `  digest: ${digest}`,
        ...(both ? registeredLines(registered) : []),
      ]),
  ];
}

const registeredLines = ({ source, ...members }: Readonly<Record<string, unknown>>): string[] => [
  ...Object.entries(members)
    .sort(([one], [two]) => byName(one, two))
    .map(([member, value]) => `  ${member}: ${JSON.stringify(value)}`),
  ...(typeof source === 'string' ? source.split('\n').map((line) => `  | ${line}`.trimEnd()) : []),
];

/** A unified diff; nothing where both do the same. */
export function differenceOf(before: Side, after: Side): string | undefined {
  const [old, fresh] = [lines(before, after).join('\n'), lines(after, before).join('\n')];
  if (old === fresh) return undefined;
  return createTwoFilesPatch(before.name, after.name, `${old}\n`, `${fresh}\n`, '', '', { context: 3 })
    .split('\n')
    .filter((line) => !line.startsWith('===='))
    .join('\n')
    .trimEnd();
}
