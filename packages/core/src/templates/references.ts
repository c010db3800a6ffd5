export {}
export const templateReferences = (): string[][] => []
