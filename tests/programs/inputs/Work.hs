-- Lightweight threads over two processors, a map, and blocks of the C library.
module Main (main) where

import Control.Concurrent
import Control.Monad
import qualified Data.Map.Strict as Map
import Foreign

work :: Int -> Int
work seed = Map.foldl' (+) 0 (Map.fromListWith (+) [((i * seed) `mod` 997, i) | i <- [1 .. 50000]])

foreignWork :: Int -> IO Int
foreignWork seed = do
  sums <- forM [1 .. 500] $ \size -> do
    block <- mallocBytes (8 * size) :: IO (Ptr Int)
    forM_ [0 .. size - 1] $ \i -> pokeElemOff block i (i * seed)
    larger <- reallocBytes block (16 * size)
    total <- sum <$> peekArray size larger
    free larger
    pure total
  pure (sum sums)

main :: IO ()
main = do
  results <- forM [1 .. 16] $ \seed -> do
    done <- newEmptyMVar
    _ <- forkOS (foreignWork seed >>= \s -> let t = s + work seed in t `seq` putMVar done t)
    pure done
  mapM takeMVar results >>= print
