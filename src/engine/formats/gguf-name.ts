/** GGUF files that are not models: image projectors and importance matrices. */
const companionFilePattern = /mmproj|imatrix/i;

/** Whether the file name of a path looks like a GGUF model. Folder names are ignored. */
export const isGgufModelPath = (path: string): boolean => {
  const name = path.slice(path.lastIndexOf('/') + 1);
  return /\.gguf$/i.test(name) && !companionFilePattern.test(name);
};
