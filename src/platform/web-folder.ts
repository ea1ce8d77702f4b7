import { type ByteSource, assertSafePath, ModelFileError, type ModelFiles } from '../engine/index.ts';
import { type HttpOptions, openHttpFile } from './http-file.ts';

/** URLs with these extensions are files; no request is needed to find out. */
const fileEnding = /\.(gguf|safetensors|json|bin|pt|pth|onnx|ggml|zip|gz|zst|xz)$/i;
/** A URL without such an extension is a folder if one of these files exists in it. */
const folderMarkerFiles = ['config.json', 'mlc-chat-config.json'];

/** Opens a URL. Undefined if the server has no such file. */
export type OpenUrl = (url: string) => Promise<ByteSource | undefined>;

/**
 * Opens a file on a web server with the files next to it, or a folder: a URL that ends in a slash, or under which
 * `config.json` or `mlc-chat-config.json` exists. Web servers do not list folders.
 * @param open opens a URL; default: by range requests
 */
export const webFiles = async (
  url: string,
  options: HttpOptions = {},
  open: OpenUrl = (one) => openIfExists(one, options),
): Promise<ModelFiles> => {
  const { pathname } = new URL(url);
  if (pathname.endsWith('/')) return filesAt(url, { entry: undefined, open });
  const asFile = filesAt(url, { entry: decodeSegment(pathname.slice(pathname.lastIndexOf('/') + 1)), open });
  if (fileEnding.test(pathname)) return asFile;
  const asFolder = filesAt(withPath(url, `${pathname}/`), { entry: undefined, open });
  for (const markerFile of folderMarkerFiles) {
    const source = await asFolder.open(markerFile).catch((error: unknown) => {
      // If the marker cannot be read, the URL may still be a file.
      if (error instanceof ModelFileError) return undefined;
      throw error;
    });
    await source?.close();
    if (source) return { ...asFolder, name: url };
  }
  return asFile;
};

const filesAt = (url: string, { entry, open }: { entry: string | undefined; open: OpenUrl }): ModelFiles => {
  const { pathname } = new URL(url);
  const folder = pathname.slice(0, pathname.lastIndexOf('/') + 1);
  let hasFoundFile = false;
  let refusals = 0;
  return {
    name: url,
    entry,
    remote: true,
    list: async () => undefined,
    async open(name) {
      if (name !== entry) assertSafePath(url, name);
      // Keep the query of the URL (a signature, a version) for every file.
      const path = `${folder}${name.split('/').map(encodeURIComponent).join('/')}`;
      try {
        const source = await open(name === entry ? url : withPath(url, path));
        hasFoundFile ||= source !== undefined;
        return source;
      } catch (error) {
        if (name === entry || !isForbidden(error)) throw error;
        // Buckets without list permission answer 403 for absent files. If no file can be read at all, access is
        // missing.
        refusals += 1;
        if (!hasFoundFile && refusals >= folderMarkerFiles.length) throw error;
        return undefined;
      }
    },
  };
};

export const openIfExists = async (url: string, options: HttpOptions): ReturnType<OpenUrl> => {
  try {
    return await openHttpFile(url, options);
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

const decodeSegment = (text: string): string => {
  try {
    return decodeURIComponent(text);
  } catch {
    // Not percent-encoded.
    return text;
  }
};
