import { checkFileName, ModelFileError, type ModelFiles } from '../engine/index.ts';
import { chooseModel } from '../pull/choose.ts';
import { fileUrl, hubAt, type HubAccess, hubHeaders, listRepository, pinned } from '../pull/hub.ts';
import { hubPrefix, parseReference } from '../pull/reference.ts';
import type { HttpOptions } from './http-file.ts';
import { openIfThere } from './web-folder.ts';

/**
 * A repository on a hub, `hf:OWNER/NAME[:FILE][@REVISION]`, read by ranges without keeping it. Which GGUF file of
 * several is meant follows the rules of the pull command.
 * @throws ModelFileError `invalid_reference`; PullError from the hub
 */
export const hubFiles = async (
  location: string,
  access: HubAccess,
  options: HttpOptions = {},
): Promise<ModelFiles> => {
  const reference = parseReference(location.slice(hubPrefix.length));
  if (!reference) {
    throw new ModelFileError(
      'invalid_reference',
      `'${location}' is no model of a hub; write hf:OWNER/NAME, hf:OWNER/NAME:FILE or hf:OWNER/NAME:Q8_0, and @REVISION behind`,
    );
  }
  const hub = await pinned(hubAt(access, reference));
  const files = await listRepository(hub);
  const chosen = chooseModel(files, reference.file);
  const sizes = new Map(files.map(({ path, sizeBytes }) => [path, sizeBytes]));
  return {
    name: location,
    entry: chosen.entry,
    remote: true,
    list: async () => [...sizes.keys()],
    async open(name) {
      checkFileName(location, name);
      const sizeBytes = sizes.get(name);
      if (sizeBytes === undefined) return undefined;
      return await openIfThere(fileUrl(hub, name), {
        ...options,
        sizeBytes,
        headers: { ...options.headers, ...hubHeaders(hub) },
      });
    },
  };
};
