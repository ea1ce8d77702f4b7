/** The shaders, the same files that a host reads; those of the lab stay with it. */
const texts = import.meta.glob<string>(['../../wgsl/**/*.wgsl', '!../../wgsl/lab/**'], {
  query: '?raw',
  import: 'default',
  eager: true,
});
const folder = '../../wgsl/';

export const wgsl: ReadonlyMap<string, string> = new Map(
  Object.entries(texts)
    .map(([path, text]) => [path.slice(folder.length), text] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1)),
);
