import { ModelFileError } from './model-file.ts';

/** Whether a name with slashes stays inside its folder. */
export const isFileName = (name: string): boolean =>
  name.split('/').every((part) => part !== '' && part !== '.' && part !== '..' && !/[\\\p{Cc}]/u.test(part));

/**
 * Refuses a name that leads out of the folder of a model, or to nothing: an index or a manifest may name anything.
 * @param place the model's files, for the message
 */
export const checkFileName = (place: string, name: string): void => {
  if (isFileName(name)) return;
  throw new ModelFileError(
    'corrupt',
    `${place}: '${name}' is no name of a file in the model's folder; the file that names it is corrupt`,
  );
};
