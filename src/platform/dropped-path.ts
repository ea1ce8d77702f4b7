/** A folder that is dropped names its files `folder/file`; the folder is the model. */
export const droppedPath = (file: File): string => {
  const path = file.webkitRelativePath ?? '';
  return path === '' ? file.name : path.slice(path.indexOf('/') + 1);
};
