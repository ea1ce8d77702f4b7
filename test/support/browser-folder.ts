/** The files of a model as a browser provides them: dropped on a page, or in its private file system. */
import type { FolderHandle } from '../../src/platform/browser-files.ts';

type Contents = Readonly<Record<string, Uint8Array<ArrayBuffer>>>;

export const browserFile = (contents: Contents, name: string): File =>
  new File([contents[name] ?? new Uint8Array()], name.split('/').at(-1) ?? '');

/** The files of a dropped folder, as `folder/name`. */
export const droppedFolder = (contents: Contents): File[] =>
  Object.keys(contents).map((path) =>
    Object.defineProperty(browserFile(contents, path), 'webkitRelativePath', { value: `folder/${path}` }),
  );

/** A folder as the private file system represents it. */
export const folderHandle = (contents: Contents, name = 'models', prefix = ''): FolderHandle => {
  const below = Object.keys(contents).filter((path) => path.startsWith(prefix));
  const missing = (kind: string) => Object.assign(new Error('no'), { name: kind });
  return {
    name,
    async getFileHandle(one) {
      if (!contents[prefix + one]) throw missing(below.length > 0 ? 'NotFoundError' : 'TypeMismatchError');
      return { getFile: async () => browserFile(contents, prefix + one) };
    },
    async getDirectoryHandle(one) {
      if (!below.some((path) => path.startsWith(`${prefix}${one}/`))) throw missing('NotFoundError');
      return folderHandle(contents, one, `${prefix}${one}/`);
    },
    async *values() {
      const heads = below.map((path) => path.slice(prefix.length).split('/'));
      const seen = new Set<string>();
      for (const [head = '', rest] of heads) {
        if (!seen.has(head))
          yield { kind: rest === undefined ? ('file' as const) : ('directory' as const), name: head };
        seen.add(head);
      }
    },
  };
};
