/** Large values kept in this browser: images do not fit into its other storage. Without it, nothing is kept. */

const STORE = "kept";

function opened(mode: IDBTransactionMode): Promise<IDBObjectStore> {
  return new Promise((resolve, reject) => {
    const asked = indexedDB.open("interleave", 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore(STORE);
    asked.onsuccess = () => resolve(asked.result.transaction(STORE, mode).objectStore(STORE));
    asked.onerror = () => reject(asked.error);
  });
}

export async function loadValue<T>(key: string): Promise<T | undefined> {
  try {
    const store = await opened("readonly");
    return await new Promise((resolve) => {
      const asked = store.get(key);
      asked.onsuccess = () => resolve(asked.result as T | undefined);
      asked.onerror = () => resolve(undefined);
    });
  } catch {
    return undefined;
  }
}

export function storeValue(key: string, value: unknown): void {
  opened("readwrite").then((store) => store.put(value, key), () => undefined);
}
