import { type ByteSource, checkFileName, ModelFileError, type ModelFiles } from '../engine/index.ts';
import { type HttpOptions, openUrl } from './http-file.ts';

/** Endings of addresses that are a file without asking. */
const fileEnding = /\.(gguf|safetensors|json|bin|pt|pth|onnx|ggml|zip|gz|zst|xz)$/i;
/** What tells that an address without such an ending is a folder. */
const folderMarks = ['config.json', 'mlc-chat-config.json'];

/** Undefined where the server says that there is no such file. */
export type OpenUrl = (url: string) => Promise<ByteSource | undefined>;

/**
 * A file on a web server with what lies beside it, or a folder: an address that ends in a slash or below which
 * `config.json` or `mlc-chat-config.json` is found. A web server does not list its folders.
 * @param open how an address is read; by itself, by ranges as they are needed
 */
export const webFiles = async (
  url: string,
  options: HttpOptions = {},
  open: OpenUrl = (one) => openIfThere(one, options),
): Promise<ModelFiles> => {
  const { pathname } = new URL(url);
  if (pathname.endsWith('/')) return below(url, { entry: undefined, open });
  const asFile = below(url, { entry: decode(pathname.slice(pathname.lastIndexOf('/') + 1)), open });
  if (fileEnding.test(pathname)) return asFile;
  const asFolder = below(withPath(url, `${pathname}/`), { entry: undefined, open });
  for (const mark of folderMarks) {
    const source = await asFolder.open(mark).catch((error: unknown) => {
      // A server that cannot give this one may still give the file that was named.
      if (error instanceof ModelFileError) return undefined;
      throw error;
    });
    await source?.close();
    if (source) return { ...asFolder, name: url };
  }
  return asFile;
};

const below = (url: string, { entry, open }: { entry: string | undefined; open: OpenUrl }): ModelFiles => {
  const { pathname } = new URL(url);
  const folder = pathname.slice(0, pathname.lastIndexOf('/') + 1);
  let given = false;
  let refusals = 0;
  return {
    name: url,
    entry,
    remote: true,
    list: async () => undefined,
    async open(name) {
      if (name !== entry) checkFileName(url, name);
      // What follows the path (a signature, a version) goes with every file.
      const path = `${folder}${name.split('/').map(encodeURIComponent).join('/')}`;
      try {
        const source = await open(name === entry ? url : withPath(url, path));
        given ||= source !== undefined;
        return source;
      } catch (error) {
        if (name === entry || !isForbidden(error)) throw error;
        // Buckets that nobody may list refuse what is not there. Where nothing is given at all, it is access that lacks.
        refusals += 1;
        if (!given && refusals >= folderMarks.length) throw error;
        return undefined;
      }
    },
  };
};

export const openIfThere = async (url: string, options: HttpOptions): ReturnType<OpenUrl> => {
  try {
    return await openUrl(url, options);
  } catch (error) {
    if (error instanceof ModelFileError && error.code === 'not_found') return undefined;
    throw error;
  }
};

const isForbidden = (error: unknown): boolean =>
  error instanceof ModelFileError && error.code === 'forbidden';

const withPath = (url: string, pathname: string): string => {
  const changed = new URL(url);
  changed.pathname = pathname;
  return changed.href;
};

const decode = (text: string): string => {
  try {
    return decodeURIComponent(text);
  } catch {
    // A lone % is itself.
    return text;
  }
};
