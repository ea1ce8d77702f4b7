/** Path of the list in the repository. */
export const textsFile: string;
/** The content of the list. */
export function collectTexts(): string;
