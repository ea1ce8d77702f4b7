import { Facts } from '../../../../ui/index.tsx';
import type { KernelDetail } from './queries.ts';

type Registration = KernelDetail['registration'];

const pairs = (values: Readonly<Record<string, number | readonly number[]>>): string =>
  Object.entries(values)
    .map(([name, value]) => `${name} = ${typeof value === 'number' ? value : value.join(', ')}`)
    .join('; ');

/** The manifest of a registration: what the host knows beside its WGSL. */
export const manifestOf = ({
  name,
  op,
  entry_point: entry = 'main',
  dispatch: { x, y, z },
  overrides = {},
  tunables = {},
  requires = [],
  dtypes = [],
}: Registration): readonly (readonly [name: string, value: string])[] => [
  ['Name', name],
  ['Op', op],
  ['Entry point', entry],
  ['Workgroups', [x, y, z].filter((one) => one !== undefined).join(' × ')],
  ['Overrides', pairs(overrides) || 'none'],
  ['Values to tune', pairs(tunables) || 'none'],
  ['Required features', requires.join(', ') || 'none'],
  ['Weight formats', dtypes.join(', ') || "the model's"],
];

export const ManifestFacts = ({ registration }: { registration: Registration }) => (
  <Facts facts={manifestOf(registration)} />
);
