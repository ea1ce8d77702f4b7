export type PackageName = 'lathe' | 'lathe-web';
export function pack(name: PackageName): string;
