/** Path of a dropped file without the name of the dropped folder, which is the model. */
export const droppedPath = (file: File): string => {
  const path = file.webkitRelativePath ?? '';
  return path === '' ? file.name : path.slice(path.indexOf('/') + 1);
};
