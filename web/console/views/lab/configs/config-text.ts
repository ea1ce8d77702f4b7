/** Renders configs and current bindings as text for a diff. */
import { createTwoFilesPatch } from 'diff';
import type { components } from '../../../../api/schema.d.ts';

type Schemas = components['schemas'];
/** Without the evidence that no view shows. */
export type Config = Omit<Schemas['LabConfig'], 'bench'>;

/** One side of a comparison. */
export interface Side {
  readonly name: string;
  readonly bindings: readonly { readonly id: string; readonly kernel: string }[];
  readonly kernels: readonly {
    readonly name: string;
    readonly op: string;
    readonly digest: string;
    /** Registration of the kernel; absent for current bindings, because the host does not return it. */
    readonly registered?: Readonly<Record<string, unknown>>;
  }[];
  readonly model?: string;
}

/** @param spans node ids by span id; with it, bindings are listed by node, as the current bindings are */
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

export function sideOfBindings({ components: all, kernels }: Schemas['LabParts']): Side {
  const names = new Set(kernels.map(({ name }) => name));
  const bindings = all.filter(({ kernel }) => names.has(kernel)).map(({ id, kernel }) => ({ id, kernel }));
  const bound = new Set(bindings.map(({ kernel }) => kernel));
  return { name: 'bound now', bindings, kernels: kernels.filter(({ name }) => bound.has(name)) };
}

const byName = new Intl.Collator('en', { numeric: true }).compare;

/** Lines of one side, limited to what both sides provide. */
function sideLines({ model, bindings, kernels }: Side, other: Side): string[] {
  const hasRegistrations = (side: Side) => side.kernels.every(({ registered }) => registered !== undefined);
  const isComparable = hasRegistrations(other) && other.model !== undefined && model !== undefined;
  return [
    ...(isComparable ? [`model: ${model}`] : []),
    ...bindings.map(({ id, kernel }) => `${id} = ${kernel}`).sort(byName),
    ...kernels
      .toSorted((one, two) => byName(one.name, two.name))
      .flatMap(({ name, op, digest, registered = {} }) => [
        '',
        `kernel ${name}`,
        `  op: ${op}`,
        `  digest: ${digest}`,
        ...(isComparable ? registeredLines(registered) : []),
      ]),
  ];
}

const registeredLines = ({ source, ...members }: Readonly<Record<string, unknown>>): string[] => [
  ...Object.entries(members)
    .sort(([one], [two]) => byName(one, two))
    .map(([member, value]) => `  ${member}: ${JSON.stringify(value)}`),
  ...(typeof source === 'string' ? source.split('\n').map((line) => `  | ${line}`.trimEnd()) : []),
];

/** A unified diff; undefined when both sides are equal. */
export function configDiff(before: Side, after: Side): string | undefined {
  const [old, next] = [sideLines(before, after).join('\n'), sideLines(after, before).join('\n')];
  if (old === next) return undefined;
  return createTwoFilesPatch(before.name, after.name, `${old}\n`, `${next}\n`, '', '', { context: 3 })
    .split('\n')
    .filter((line) => !line.startsWith('===='))
    .join('\n')
    .trimEnd();
}
