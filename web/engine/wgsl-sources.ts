/** The shaders, from the same files as on a host, without those of the lab. */
const sourcesByPath = import.meta.glob<string>(['../../wgsl/**/*.wgsl', '!../../wgsl/lab/**'], {
  query: '?raw',
  import: 'default',
  eager: true,
});
const folder = '../../wgsl/';

export const wgslSources: ReadonlyMap<string, string> = new Map(
  Object.entries(sourcesByPath)
    .map(([path, text]) => [path.slice(folder.length), text] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1)),
);
