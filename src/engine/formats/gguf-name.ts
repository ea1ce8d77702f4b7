/** Files that only look like models: image projectors belong to one, importance matrices are made of one. */
const noModel = /mmproj|imatrix/i;

/** Whether a path's file is a GGUF model by its name; what the folders above are called says nothing. */
export const isGgufModel = (path: string): boolean => {
  const name = path.slice(path.lastIndexOf('/') + 1);
  return /\.gguf$/i.test(name) && !noModel.test(name);
};
